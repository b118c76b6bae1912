#include "echobuf/schedule/sweep.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::AutoSweep;
using echobuf::FixedSweep;
using echobuf::Part;
using echobuf::Ratio;
using echobuf::Step;
using echobuf::UpstreamProgress;
using echobuf::test::Ids;
using echobuf::test::range;
using echobuf::test::simulated_passes;

struct SweepCase {
  std::uint64_t window;
  Ratio factor;
  std::uint64_t n;
  std::uint64_t phase = 0;
};

const std::vector<SweepCase> kSweepCases = {
    {1, {1, 1}, 5},      {4, {2, 1}, 0},      {4, {2, 1}, 17},      {6, {3, 1}, 6},
    {7, {3, 1}, 40},     {12, {5, 2}, 50},    {10, {3, 2}, 33},     {9, {10, 3}, 28},
    {16, {1, 1}, 100},   {12, {5, 2}, 50, 1}, {10, {3, 2}, 33, 1},  {10, {3, 2}, 4, 1},
    {9, {10, 3}, 28, 1}, {9, {10, 3}, 28, 2}, {14, {19, 10}, 61, 7}};

/// Upstream has delivered `committed` of n.
UpstreamProgress supply_of(std::uint64_t committed, std::uint64_t n) {
  UpstreamProgress progress;
  progress.committed = committed;
  progress.ended = committed == n;
  return progress;
}

TEST(FixedSweep, WalksAllPassesInPartsOfAnySize) {
  std::mt19937_64 random(3);
  for (const SweepCase& c : kSweepCases) {
    const std::vector<Ids> passes = simulated_passes(c.window, c.factor, c.n, c.phase);
    FixedSweep sweep(c.window, c.factor, c.phase);
    const UpstreamProgress all = supply_of(c.n, c.n);
    const std::uint64_t total = sweep.remaining(c.n);
    std::uint64_t draws = 0;
    for (std::uint64_t p = 0; p < passes.size(); ++p)
      for (std::uint64_t offset = 0; offset < passes[p].size();) {
        ASSERT_EQ(sweep.oldest_record(), passes[p][0]);
        const std::uint64_t most = 1 + random() % (c.window + 2);
        Part part;
        ASSERT_EQ(sweep.step(all, most, part), Step::kPart);
        ASSERT_EQ(part.pass, p);
        ASSERT_EQ(range(part.window.first, part.window.end()), passes[p]);
        ASSERT_EQ(part.offset, offset);
        ASSERT_EQ(part.count, std::min(most, passes[p].size() - offset));
        offset += part.count;
        draws += part.count;
        ASSERT_EQ(sweep.pass_done(), offset == passes[p].size());
        ASSERT_EQ(sweep.position().draws, draws);
        ASSERT_EQ(sweep.remaining(c.n), total - draws);
        ASSERT_EQ(sweep.passes_begun(), p + 1);
        ASSERT_EQ(sweep.resident_end(), passes[p].back() + 1);
      }
    Part part;
    ASSERT_EQ(sweep.step(all, 1, part), Step::kFinished);
    ASSERT_EQ(draws, total);
  }
}

TEST(FixedSweep, NeverDependsOnWhenRecordsCome) {
  std::mt19937_64 random(4);
  for (const SweepCase& c : kSweepCases) {
    FixedSweep late(c.window, c.factor, c.phase);
    FixedSweep early(c.window, c.factor, c.phase);
    std::uint64_t committed = 0;
    for (;;) {
      Part one, two;
      const Step step = late.step(supply_of(committed, c.n), 3, one);
      if (step == Step::kWait) {
        ASSERT_GT(late.need(), committed);
        const std::uint64_t missing = c.n - committed;
        ASSERT_GT(missing, 0u);
        committed += 1 + random() % missing;
        continue;
      }
      ASSERT_EQ(early.step(supply_of(c.n, c.n), 3, two), step);
      if (step == Step::kFinished) break;
      ASSERT_EQ(one.pass, two.pass);
      ASSERT_EQ(one.offset, two.offset);
      ASSERT_EQ(one.count, two.count);
      ASSERT_EQ(one.window.first, two.window.first);
      ASSERT_EQ(one.window.count, two.window.count);
    }
  }
}

TEST(FixedSweep, GoesOnFromAPosition) {
  for (const SweepCase& c : kSweepCases) {
    FixedSweep one(c.window, c.factor, c.phase);
    const UpstreamProgress all = supply_of(c.n, c.n);
    Part part, other;
    for (;;) {
      FixedSweep two(c.window, c.factor, c.phase);
      two.restore(one.position(), one.pass_done(), one.resident_end());
      ASSERT_EQ(two.oldest_record(), one.oldest_record());
      const Step step = one.step(all, 2, part);
      ASSERT_EQ(two.step(all, 2, other), step);
      if (step != Step::kPart) break;
      ASSERT_EQ(other.pass, part.pass);
      ASSERT_EQ(other.offset, part.offset);
      ASSERT_EQ(other.count, part.count);
    }
  }
}

TEST(AutoSweep, DrawsEachPassOnceAndCountsWhatIsLeft) {
  std::mt19937_64 random(5);
  AutoSweep sweep(50, 6, 4);
  UpstreamProgress progress;
  std::uint64_t draws = 0, in_pass = 0, pass = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::uint64_t free =
        sweep.oldest_record() + sweep.schedule().capacity() - progress.committed;
    progress.committed += std::min(free, random() % 3);
    const bool between = sweep.between_passes();
    AutoSweep copy = sweep;
    Part part;
    const Step taken = sweep.step(progress, 1 + random() % 9, part);
    if (taken == Step::kWait) {
      ASSERT_TRUE(between);
      continue;
    }
    ASSERT_EQ(taken, Step::kPart);
    if (between) {
      in_pass = 0;
      ASSERT_EQ(part.pass, draws == 0 ? 0 : pass + 1);
    }
    pass = part.pass;
    ASSERT_EQ(part.offset, in_pass);
    in_pass += part.count;
    draws += part.count;
    ASSERT_LE(in_pass, part.window.count);
    ASSERT_EQ(sweep.between_passes(), in_pass == part.window.count);
    ASSERT_EQ(sweep.position().draws, draws);
    ASSERT_EQ(sweep.passes_begun(), pass + 1);
    ASSERT_EQ(sweep.remaining(progress.committed),
              part.window.count - in_pass + progress.committed - part.window.end());

    copy.restore(sweep.schedule().state(), sweep.position());
    ASSERT_EQ(copy.between_passes(), sweep.between_passes());
    ASSERT_EQ(copy.remaining(progress.committed), sweep.remaining(progress.committed));
  }
  ASSERT_GT(pass, 100u);
}

}  // namespace
