#include "echobuf/schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::FixedSchedule;
using echobuf::Ratio;
using echobuf::test::Ids;
using echobuf::test::simulated_passes;
__extension__ using Wide = unsigned __int128;

const std::vector<Ratio> kFactors = {{1, 1}, {2, 1}, {3, 1},  {4, 1},    {7, 1},
                                     {3, 2}, {5, 2}, {11, 3}, {10, 9},   {19, 10},
                                     {9, 4}, {7, 3}, {31, 5}, {101, 100}};

TEST(FixedSchedule, AgreesWithASimulation) {
  for (const Ratio factor : kFactors)
    for (std::uint64_t window = factor.ceil(); window <= 24; ++window)
      for (std::uint64_t n = 0; n <= 3 * window + 2; ++n) {
        SCOPED_TRACE(testing::Message() << "factor " << factor.num << "/" << factor.den
                                        << " window " << window << " n " << n);
        const FixedSchedule schedule(window, factor);
        const std::vector<Ids> passes = simulated_passes(window, factor, n);
        ASSERT_EQ(schedule.passes(n), passes.size());
        std::uint64_t draws = 0;
        for (std::uint64_t p = 0; p < passes.size(); ++p) {
          ASSERT_EQ(schedule.oldest_record(p), passes[p].front());
          ASSERT_EQ(std::min(n, schedule.segment_start(p + 1)), passes[p].back() + 1);
          ASSERT_LE(passes[p].size(), window);
          draws += passes[p].size();
        }
        ASSERT_EQ(schedule.total_draws(n), draws);
      }
}

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

TEST(FixedSchedule, HoldsTheWindowAndTheSegmentThatIsFilled) {
  for (const Ratio factor : kFactors)
    for (std::uint64_t window = factor.ceil(); window <= 40; ++window) {
      const FixedSchedule schedule(window, factor);
      for (std::uint64_t p = 0; p < 200; ++p)
        ASSERT_LE(schedule.segment_start(p + 2) - schedule.oldest_record(p),
                  schedule.capacity());
    }
}

TEST(FixedSchedule, KeepsUseWithinOneSegment) {
  for (const Ratio factor : kFactors)
    for (std::uint64_t window = factor.ceil(); window <= 40; window += 3) {
      const FixedSchedule schedule(window, factor);
      const std::uint64_t segment = schedule.segment_start(1);
      for (std::uint64_t n = 0; n < 500; n += 7) {
        const double exact = static_cast<double>(n) * static_cast<double>(factor.num) /
                             static_cast<double>(factor.den);
        ASSERT_NEAR(static_cast<double>(schedule.total_draws(n)), exact,
                    static_cast<double>(segment) + 1e-6);
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
  const FixedSchedule schedule(kWindow, factor);
  const std::uint64_t segment = kWindow / 3;
  const std::uint64_t full = kRecords / segment;
  Wide draws = 0;
  for (std::uint64_t i = 0; i < full; ++i) draws += Wide{segment} * schedule.life(i);
  draws += Wide{kRecords % segment} * schedule.life(full);
  EXPECT_EQ(schedule.total_draws(kRecords), static_cast<std::uint64_t>(draws));
}

}  // namespace
