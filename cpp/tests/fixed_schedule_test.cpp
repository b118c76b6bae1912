#include "echobuf/schedule/fixed_schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using echobuf::epoch_phase;
using echobuf::FixedSchedule;
using echobuf::Ratio;
__extension__ using Wide = unsigned __int128;

const std::vector<Ratio> kFactors = {{1, 1}, {2, 1}, {3, 1},  {4, 1},    {7, 1},
                                     {3, 2}, {5, 2}, {11, 3}, {10, 9},   {19, 10},
                                     {9, 4}, {7, 3}, {31, 5}, {101, 100}};

TEST(FixedSchedule, CountsSegments) {
  for (const Ratio factor : kFactors)
    for (std::uint64_t window = factor.ceil(); window <= 24; ++window) {
      const FixedSchedule schedule(window, factor);
      for (std::uint64_t n = 0; n <= 5 * window; ++n) {
        std::uint64_t segments = 0;
        while (schedule.segment_start(segments) < n) ++segments;
        ASSERT_EQ(schedule.segments_in(n), segments);
      }
    }
}

TEST(Ratio, MultipliesWithoutOverflow) {
  const Ratio fine{(std::uint64_t{1} << 50) + 1, std::uint64_t{1} << 40};
  for (const std::uint64_t i :
       {std::uint64_t{1}, std::uint64_t{1} << 40, (std::uint64_t{1} << 41) - 1}) {
    EXPECT_EQ(fine.times(i), static_cast<std::uint64_t>(Wide{i} * fine.num / fine.den));
  }
}

TEST(FixedSchedule, IsExactForLargeWindowsAndLongEpochs) {
  constexpr std::uint64_t kWindow = 0x7FFFFFFF;
  constexpr std::uint64_t kRecords = std::uint64_t{1} << 40;
  for (const std::uint64_t factor : {std::uint64_t{1}, std::uint64_t{3},
                                     std::uint64_t{1000}, std::uint64_t{1} << 23}) {
    const FixedSchedule schedule(kWindow, {factor, 1});
    const auto start = [&](std::uint64_t i) {
      return i / factor * kWindow +
             static_cast<std::uint64_t>(Wide{i % factor} * kWindow / factor);
    };
    const std::uint64_t last = schedule.segments_in(kRecords) - 1;
    EXPECT_LT(start(last), kRecords);
    EXPECT_GE(start(last + 1), kRecords);
    EXPECT_EQ(schedule.passes(kRecords), last + factor);
    EXPECT_EQ(schedule.total_draws(kRecords), kRecords * factor);
    for (const std::uint64_t pass : {factor - 1, last / 2, last}) {
      const std::uint64_t oldest = pass < factor ? 0 : pass - factor + 1;
      EXPECT_EQ(schedule.segment_start(pass), start(pass));
      EXPECT_EQ(schedule.oldest_record(pass), start(oldest));
    }
  }
}

TEST(FixedSchedule, IsExactForFineFractionsAndLongEpochs) {
  constexpr std::uint64_t kWindow = 0x7FFFFFFF;
  constexpr std::uint64_t kRecords = std::uint64_t{1} << 40;
  const Ratio factor{2'718'281, 1'000'000};
  const FixedSchedule schedule(kWindow, factor, 999'999);
  const std::uint64_t segment = kWindow / 3;
  const std::uint64_t full = kRecords / segment;
  Wide draws = 0;
  for (std::uint64_t i = 0; i < full; ++i) draws += Wide{segment} * schedule.life(i);
  draws += Wide{kRecords % segment} * schedule.life(full);
  EXPECT_EQ(schedule.total_draws(kRecords), static_cast<std::uint64_t>(draws));
}

// ---- which segments live longer, from epoch to epoch

constexpr std::uint64_t kTenEpochs = 10;
constexpr std::uint64_t kFirstEpochs[] = {0, 1, 12'345, (std::uint64_t{1} << 63) - 5,
                                          ~std::uint64_t{0} - 40};

/// True if every segment's mean life over ten epochs in a row is within 0.2 of e, for
/// each e with this denominator: phases below den - f give no extra use at position 0,
/// and other positions move the border.
bool spreads_extra_use(std::uint64_t den, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> count(2 * den + 1, 0);  // phases below i, twice around
  for (std::uint64_t k = 0; k < kTenEpochs; ++k) {
    const std::uint64_t phase = epoch_phase({den + 1, den}, seed, epoch + k);
    if (phase >= den) return false;
    ++count[phase + 1];
    ++count[phase + den + 1];
  }
  for (std::uint64_t i = 1; i <= 2 * den; ++i) count[i] += count[i - 1];
  for (std::uint64_t first = 0; first < den; ++first)
    for (std::uint64_t f = 1; f < den; ++f) {
      const auto extra = static_cast<double>(count[first + f] - count[first]);
      const double share =
          kTenEpochs * static_cast<double>(f) / static_cast<double>(den);
      if (std::abs(extra - share) > 1.9) return false;
    }
  return true;
}

TEST(EpochPhase, SpreadsTheExtraUseOverTenEpochs) {
  for (std::uint64_t den = 2; den <= 64; ++den)
    for (const std::uint64_t seed : {0, 7, 123'456'789})
      for (const std::uint64_t late : kFirstEpochs)
        for (std::uint64_t epoch = late; epoch < late + 12; ++epoch)
          ASSERT_TRUE(spreads_extra_use(den, seed, epoch))
              << den << " from epoch " << epoch;
  for (const std::uint64_t den : {91, 117, 350, 480, 997, 1000})
    for (const std::uint64_t late : kFirstEpochs)
      ASSERT_TRUE(spreads_extra_use(den, 3, late)) << den;
}

}  // namespace
