// The largest number of parts of a batch: the memory of a plan is made once.
#include "echobuf/cuda/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "echobuf/schedule/sweep.hpp"
#include "tests/rounds.hpp"

namespace {

using echobuf::AutoSweep;
using echobuf::BufferOptions;
using echobuf::FixedSweep;
using echobuf::Part;
using echobuf::Step;
using echobuf::UpstreamProgress;
using echobuf::cuda::most_parts;
using echobuf::test::kSanitized;

/// The most parts of any batch of an epoch of `n` records.
std::uint64_t parts_of(const BufferOptions& options, std::uint64_t phase,
                       std::uint64_t n) {
  FixedSweep sweep(options.window, options.factor, phase);
  UpstreamProgress progress;
  progress.committed = n;
  progress.ended = true;
  std::uint64_t most = 0;
  for (;;) {
    std::uint64_t parts = 0;
    for (std::uint64_t rows = 0; rows < options.batch_size; ++parts) {
      Part part;
      if (sweep.step(progress, options.batch_size - rows, part) == Step::kFinished)
        return std::max(most, parts);
      rows += part.count;
    }
    most = std::max(most, parts);
  }
}

TEST(Plan, HasRoomForAllPartsOfABatchWithAFixedFactor) {
  std::uint64_t closest = 0;
  BufferOptions options;
  for (options.window = 1; options.window <= (kSanitized ? 9 : 12); ++options.window)
    for (std::uint64_t den = 1; den <= 4; ++den)
      for (std::uint64_t num = den; num <= options.window * den; ++num) {
        if (std::gcd(num, den) != 1) continue;
        options.factor = {num, den};
        if (options.window < options.factor.ceil()) continue;
        const std::uint64_t largest = options.largest_batch();
        for (options.batch_size = 1; options.batch_size <= largest;
             ++options.batch_size)
          for (std::uint64_t n = 1; n <= 3 * options.window; ++n)
            for (std::uint64_t phase = 0; phase < den; ++phase) {
              const std::uint64_t parts = parts_of(options, phase, n);
              ASSERT_LE(parts, most_parts(options))
                  << "window " << options.window << ", factor " << num << '/' << den
                  << ", phase " << phase << ", batch " << options.batch_size << ", "
                  << n << " records";
              if (parts + 1 >= most_parts(options)) closest = std::max(closest, parts);
            }
      }
  EXPECT_GT(closest, 8u) << "the bound is far from what there is";
}

TEST(Plan, HasRoomForAllPartsOfABatchOfAuto) {
  std::mt19937_64 random(1);
  std::uint64_t most = 0;
  for (int run = 0; run < 3000; ++run) {
    BufferOptions options;
    options.automatic = true;
    options.window = 1 + random() % 60;
    options.batch_size = 1 + random() % options.window;
    options.max_factor = 1 + static_cast<std::uint32_t>(random() % 10);
    AutoSweep sweep(options.window, options.batch_size, options.max_factor);
    const std::uint64_t n = random() % 400;
    const std::uint64_t rate = 1 + random() % 10;  // draws to an example, about
    UpstreamProgress progress;
    // One part for what a wait has cut off, as in DeviceDrawer.
    std::uint64_t rows = 0, parts = 0;
    for (bool done = false; !done;) {
      const bool more = progress.committed < n;
      if (more && random() % rate == 0) progress.committed += random() % 20;
      progress.committed = std::min(progress.committed, n);
      progress.ended = progress.committed == n;
      progress.held_back = random() % 2 == 0;
      Part part;
      switch (sweep.step(progress, options.batch_size - rows, part)) {
        case Step::kPart:
          rows += part.count;
          ++parts;
          break;
        case Step::kWait:
          parts = rows > 0 ? 1 : 0;
          break;
        case Step::kFinished:
          done = true;
      }
      ASSERT_LE(parts, most_parts(options))
          << "window " << options.window << ", batch " << options.batch_size;
      most = std::max(most, parts);
      if (rows == options.batch_size) rows = parts = 0;
    }
  }
  EXPECT_GT(most, 4u);
}

TEST(Plan, HasOnePartForAllPassesThatListTheirRecords) {
  BufferOptions options;
  options.window = options.batch_size = 12;
  options.factor = {4, 1};
  options.max_staleness = 0;
  echobuf::cuda::Plan plan(options);
  plan.begin({});
  echobuf::DrawPart held{};
  held.capacity = held.count = 5;
  plan.add(held, 0);
  std::vector<std::uint32_t> slots(5, 0);
  for (std::uint32_t pass = 0; pass < 7; ++pass) {
    echobuf::DrawPart listed{};
    listed.count = 1;
    plan.add(listed, 10 * pass);
    plan.add_slot(pass * 3);
    slots.push_back(pass * 3);
  }
  EXPECT_EQ(plan.parts().size(), 2u);
  EXPECT_EQ(plan.parts()[1].row, 5u);
  EXPECT_EQ(plan.parts()[1].offset, 5u);
  EXPECT_EQ(plan.parts()[1].count, 7u);
  EXPECT_EQ(plan.slots(), slots);
  EXPECT_EQ(plan.rows(), 12u);
  EXPECT_EQ(plan.end(), 60u);
}

}  // namespace
