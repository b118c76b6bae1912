#include "echobuf/schedule/segment_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::SegmentTable;
using echobuf::test::Ids;

constexpr std::uint64_t kUnknown = SegmentTable::kUnknown;

/// Most records of segment i, and never none.
std::uint64_t size_of(std::uint64_t i) { return 1 + (i * i + 3) % 7; }

/// Bytes of records, many of them none, and some a whole share.
Ids some_bytes(std::uint64_t n, std::uint64_t share, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Ids bytes;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t kind = random() % 6;
    bytes.push_back(kind == 0   ? 0
                    : kind == 1 ? share
                                : random() % (share / (kind - 1) + 1));
  }
  return bytes;
}

/// Where segments begin, of what is known of these records: looked at from the start
/// for each.
Ids starts_of(const Ids& bytes, std::uint64_t n, std::uint64_t share) {
  Ids starts = {0};
  for (;;) {
    const std::uint64_t first = starts.back();
    const std::uint64_t most = size_of(starts.size() - 1);
    std::uint64_t end = first, sum = 0;
    while (end < n && end - first < most && sum + bytes[end] <= share)
      sum += bytes[end++];
    if (end == n && end - first < most) return starts;  // more may come
    starts.push_back(end);
  }
}

TEST(SegmentTable, ForgetsWhatIsNotAskedAnyMore) {
  constexpr std::uint64_t kShare = 40, kRecords = 400;
  const Ids bytes = some_bytes(kRecords, kShare, 5);
  std::mt19937_64 random(5);
  SegmentTable table(kShare);
  table.begin(0, 0);
  std::uint64_t first = 0;
  for (std::uint64_t n = 0; n < kRecords; ++n) {
    table.add(bytes[n], size_of);
    first = std::min(table.open(), first + random() % 3);
    table.forget(first);
    const Ids starts = starts_of(bytes, n + 1, kShare);
    for (std::uint64_t i = first; i < starts.size() + 3; ++i)
      ASSERT_EQ(table.start(i), i < starts.size() ? starts[i] : kUnknown);
  }
  table.forget(table.open() + 5);
  ASSERT_EQ(table.start(table.open()), kRecords - table.open_records())
      << "the open one is kept";
}

}  // namespace
