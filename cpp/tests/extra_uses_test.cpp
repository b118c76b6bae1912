#include "echobuf/schedule/extra_uses.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace {

using echobuf::ExtraUses;
using echobuf::Ratio;
using echobuf::Sparse;

constexpr Ratio kFractions[] = {{3, 2}, {4, 3},   {5, 3},   {11, 10},
                                {5, 2}, {29, 10}, {33, 17}, {1999, 1000}};

TEST(ExtraUses, AreAtMostOneForEachRecordAndSpreadEvenly) {
  for (const Ratio factor : kFractions)
    for (std::uint64_t phase = 0; phase < factor.den; phase += 1 + factor.den / 12) {
      const ExtraUses extra(factor, phase);
      const std::uint64_t num = factor.num % factor.den;
      ASSERT_EQ(extra.before(0), 0u);
      for (std::uint64_t r = 0; r < 3 * factor.den; ++r) {
        const std::uint64_t of_this = extra.before(r + 1) - extra.before(r);
        ASSERT_LE(of_this, 1u);
        if (of_this == 1) {
          ASSERT_EQ(extra.nth(extra.before(r)), r);
        }
        // Less than one use from the fraction of them, in parts of den.
        const std::uint64_t parts = extra.before(r) * factor.den;
        ASSERT_LT(parts, r * num + factor.den);
        ASSERT_LT(r * num, parts + factor.den);
      }
    }
}

TEST(ExtraUses, AreExactInLongEpochs) {
  constexpr std::uint64_t kRecords = std::uint64_t{1} << 47;
  const ExtraUses extra({2'718'281, 1'000'000}, 999'999);
  for (const std::uint64_t r : {kRecords, kRecords - 12'345}) {
    const std::uint64_t k = extra.before(r);
    EXPECT_EQ(k, r / 1'000'000 * 718'281 + r % 1'000'000 * 718'281 / 1'000'000);
    EXPECT_GE(extra.nth(k), r);
    EXPECT_LT(extra.nth(k - 1), r);
  }
}

TEST(Sparse, IsTheWholeWindowWithoutRecords) {
  std::vector<std::uint32_t> numbers = {5, 0, 3};
  Sparse().place_all(numbers.data(), numbers.size());
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{5, 0, 3}));
  EXPECT_EQ(Sparse().left_out(), 0u);
}

}  // namespace
