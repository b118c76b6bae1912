#include "echobuf/draw/rows_copy.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

namespace {

using echobuf::fill_rows;
using echobuf::RowsCopier;
using echobuf::RowsSource;

TEST(RowsCopier, CopiesRunsOfAnyLengthFromAnywhere) {
  constexpr std::size_t kSource = 1 << 16;
  std::mt19937_64 random(1);
  std::vector<std::byte> source(kSource);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  for (const bool stream : {false, true})
    for (const std::size_t longest : {0, 1, 40, 255, 256, 257, 3000})
      for (const std::size_t count : {1, 2, 9, 60}) {
        std::vector<RowsSource> sources;
        std::size_t total = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t bytes = longest == 0 ? 0 : random() % (longest + 1);
          // The last byte of one is the last of the memory: nothing behind it is read.
          const std::size_t at =
              i == 0 ? kSource - bytes : random() % (kSource - bytes);
          sources.push_back({source.data() + at, bytes});
          total += bytes;
        }
        std::vector<std::byte> got(total + 2, std::byte{7});
        RowsCopier copy(sources.data(), count, stream);
        std::size_t at = 1;
        for (std::size_t i = 0; i < count; ++i) {
          copy(got.data() + at);
          at += sources[i].bytes;
        }
        if (stream) echobuf::finish_streaming();
        at = 1;
        for (const RowsSource& run : sources) {
          ASSERT_TRUE(run.bytes == 0 ||
                      std::memcmp(got.data() + at, run.data, run.bytes) == 0);
          at += run.bytes;
        }
        ASSERT_EQ(got.front(), std::byte{7});
        ASSERT_EQ(got.back(), std::byte{7});
      }
}

TEST(RowsCopier, ReadsNothingOfAnEmptyRun) {
  const std::vector<RowsSource> sources(20, {nullptr, 0});
  for (const bool stream : {false, true}) {
    RowsCopier copy(sources.data(), sources.size(), stream);
    for (std::size_t i = 0; i < sources.size(); ++i) copy(nullptr);
  }
}

TEST(FillRows, RepeatsAPatternAndElseZeros) {
  for (const std::size_t size : {0, 1, 2, 3, 8, 12})
    for (const std::size_t bytes : {0, 1, 5, 24, 25, 1000}) {
      std::vector<std::byte> pattern;
      for (std::size_t i = 0; i < size; ++i) pattern.push_back(std::byte(i + 1));
      std::vector<std::byte> got(bytes + 1, std::byte{0xEE});
      fill_rows(got.data(), bytes, pattern);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(got[i], size == 0 ? std::byte{0} : pattern[i % size]);
      ASSERT_EQ(got[bytes], std::byte{0xEE});
    }
}

}  // namespace
