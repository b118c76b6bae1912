#include "echobuf/schedule/segment_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/fixed_schedule.hpp"
#include "support.hpp"

namespace {

using echobuf::AutoSchedule;
using echobuf::FixedSchedule;
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

TEST(SegmentTable, AgreesWithASlowReference) {
  for (const std::uint64_t share : {1, 5, 40, 1000})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      constexpr std::uint64_t kRecords = 120;
      const Ids bytes = some_bytes(kRecords, share, seed);
      SegmentTable table(share);
      table.begin(0, 0);
      for (std::uint64_t n = 0; n <= kRecords; ++n) {
        const Ids starts = starts_of(bytes, n, share);
        ASSERT_EQ(table.end(), n);
        ASSERT_EQ(table.open(), starts.size() - 1);
        ASSERT_EQ(table.open_records(), n - starts.back());
        ASSERT_EQ(table.segments(), starts.size() - (starts.back() == n ? 1 : 0));
        for (std::uint64_t i = 0; i < starts.size() + 3; ++i)
          ASSERT_EQ(table.start(i), i < starts.size() ? starts[i] : kUnknown);
        if (n < kRecords) table.add(bytes[n], size_of);
      }
    }
}

TEST(SegmentTable, WithoutAShareEndsSegmentsByTheirRecords) {
  SegmentTable table(kUnknown);
  table.begin(0, 0);
  std::uint64_t start = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(table.start(i), start);
    for (std::uint64_t r = 0; r < size_of(i); ++r) table.add(1u << 30, size_of);
    start += size_of(i);
  }
}

TEST(SegmentTable, GoesOnFromASegment) {
  constexpr std::uint64_t kShare = 40, kRecords = 120;
  const Ids bytes = some_bytes(kRecords, kShare, 3);
  const Ids starts = starts_of(bytes, kRecords, kShare);
  ASSERT_GT(starts.size(), 10u);
  for (std::uint64_t first = 0; first < starts.size(); ++first) {
    SegmentTable table(kShare);
    table.begin(first, starts[first]);
    for (std::uint64_t n = starts[first]; n < kRecords; ++n)
      table.add(bytes[n], size_of);
    for (std::uint64_t i = first; i < starts.size() + 3; ++i)
      ASSERT_EQ(table.start(i), i < starts.size() ? starts[i] : kUnknown);
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

TEST(SegmentTable, ShapesFixedAndAutomaticSchedules) {
  constexpr std::uint64_t kShare = 100;
  const FixedSchedule fixed(24, {3, 1});
  const AutoSchedule automatic(24, 4, 8);
  const auto check = [&](auto schedule) {
    const auto plain = schedule;
    SegmentTable table(kShare);
    table.begin(0, 0);
    schedule.follow(&table);
    for (int i = 0; i < 7; ++i)  // small ones: segments end by their records
      table.add(1, [&](std::uint64_t s) { return schedule.segment_size(s); });
    const std::uint64_t begun = table.open();
    for (std::uint64_t i = 0; i <= begun; ++i)
      ASSERT_EQ(schedule.segment_start(i), plain.segment_start(i));
    ASSERT_EQ(schedule.segment_start(begun + 1), kUnknown);
    for (int i = 0; i < 4; ++i)  // large ones: each is a segment
      table.add(kShare, [&](std::uint64_t s) { return schedule.segment_size(s); });
    ASSERT_EQ(schedule.segment_start(table.open()), table.end() - 1);
    ASSERT_EQ(schedule.segment_start(table.open() - 1), table.end() - 2);
  };
  check(fixed);
  check(automatic);
}

}  // namespace
