#include "echobuf/store/versions.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using echobuf::Versions;

TEST(Versions, AreThoseOfTheLastLapAndElseZero) {
  Versions versions(5);
  EXPECT_FALSE(versions.any());
  versions.write(0, 5, nullptr);
  const std::vector<std::int64_t> some = {7, 8, 9};
  versions.write(3, 3, some.data());  // around the end
  EXPECT_TRUE(versions.any());
  versions.write(6, 1, nullptr);
  const std::vector<std::int64_t> expected = {0, 7, 8, 9, 0};
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(versions.at(2 + i), expected[i]);
  const std::vector<std::uint32_t> places = {4, 1, 0, 3};
  std::vector<std::int64_t> copied(places.size());
  versions.copy(2, places.data(), places.size(), copied.data());
  EXPECT_EQ(copied, (std::vector<std::int64_t>{0, 7, 0, 9}));
}

TEST(Versions, OfNoSlotsKeepNothing) {
  Versions versions(0);
  const std::int64_t one = 3;
  versions.write(9, 1, &one);
  EXPECT_FALSE(versions.any());
  EXPECT_EQ(versions.bytes(), 0u);
}

}  // namespace
