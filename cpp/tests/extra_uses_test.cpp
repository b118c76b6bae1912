#include "echobuf/schedule/extra_uses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "echobuf/schedule/fixed_schedule.hpp"
#include "echobuf/schedule/segment_table.hpp"

namespace {

using echobuf::ExtraUses;
using echobuf::FixedSchedule;
using echobuf::Ratio;
using echobuf::SegmentTable;
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

/// Bytes of records that end most segments by their share of 40, or none.
std::uint64_t bytes_of(std::uint64_t record, std::uint64_t seed) {
  std::mt19937_64 random(record / 40 * 99 + seed);
  const std::uint64_t most = random() % 3 == 0 ? 1 : 30;
  random.seed(record + seed);
  return random() % most;
}

TEST(FixedSchedule, SweepsSomeRecordsOfSegmentsThatEndByTheirShare) {
  constexpr std::uint64_t kRecords = 400, kShare = 40;
  std::uint64_t sparse_passes = 0, whole = 0;
  for (const Ratio factor : kFractions)
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const std::uint64_t phase = seed % factor.den;
      const std::uint64_t window = factor.ceil() * (5 + seed % 4);
      const std::uint64_t most = window / factor.ceil();
      FixedSchedule schedule(window, factor, phase);
      SegmentTable table(kShare);
      table.begin(0, 0);
      schedule.follow(&table);
      for (std::uint64_t r = 0; r < kRecords; ++r)
        table.add(bytes_of(r, seed),
                  [&](std::uint64_t i) { return schedule.segment_size(i); });
      std::uint64_t draws = 0, records = 0, singles = 0;
      const ExtraUses extra(factor, phase);
      const std::uint64_t least = factor.num / factor.den;
      for (std::uint64_t i = 0; i < table.segments(); ++i) {
        draws += schedule.draws_of(i);
        records += table.records(i);
        // In parts of den: never more than the most records of a segment off.
        const std::uint64_t exact = records * factor.num;
        ASSERT_LE(draws * factor.den, exact + most * factor.den);
        ASSERT_LE(exact, (draws + most) * factor.den);
        const std::uint64_t last = i + schedule.life(i) - 1;
        const Sparse sparse = schedule.sparse(i, last);
        whole += table.records(i) == most ? 1 : 0;
        if (!table.is_short(i)) {
          ASSERT_EQ(sparse.records, 0u);
          continue;
        }
        ASSERT_EQ(schedule.sparse(i, i + least - 1).records, 0u);
        if (schedule.life(i) > least) {
          ++sparse_passes;
          ASSERT_EQ(sparse.records, table.records(i));
          std::vector<std::uint32_t> places;
          for (std::uint32_t r = 0; r < sparse.records; ++r)
            if (extra.before(singles + r + 1) > extra.before(singles + r))
              places.push_back(r);
          ASSERT_EQ(sparse.draws, places.size());
          // The other records of the window follow.
          const auto end = static_cast<std::uint32_t>(sparse.records);
          places.insert(places.end(), {end, end + 1, end + 7});
          const auto count = static_cast<std::uint32_t>(places.size());
          std::vector<std::uint32_t> numbers;
          for (std::uint32_t n = 0; n + 1 < count; ++n) numbers.push_back(n);
          numbers.push_back(count + 4);
          sparse.place_all(numbers.data(), numbers.size());
          ASSERT_EQ(numbers, places);
        }
        singles += table.records(i);
      }
      ASSERT_EQ(records, kRecords);
    }
  EXPECT_GT(sparse_passes, 300u);
  EXPECT_GT(whole, 300u);
}

}  // namespace
