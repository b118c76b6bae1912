// Gates of stages, and programs whose stages have them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "echobuf/transform/gates.hpp"
#include "echobuf/transform/stage_executor.hpp"
#include "transform_cases.hpp"

namespace echobuf::transform {
namespace {

DrawNumber draw_number(std::uint64_t draw) { return {transform_key(5, 1), draw, 0}; }

Gate uniform_gate(std::uint32_t number, double low, double high) {
  return {number, 0, 0, 0, low, high};
}

TEST(TransformGates, RanksAreThoseOfSortedPermutations) {
  for (std::uint32_t count = 1; count <= kMostOrdered; ++count) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    std::uint32_t rank = 0;
    do {
      for (std::uint32_t at = 0; at < count; ++at)
        ASSERT_EQ(ordered(rank, count, at), order[at]) << rank << " of " << count;
      ++rank;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(rank, permutations_of(count));
  }
}

TEST(TransformGates, AllGatesOfAStageMustBeOpen) {
  Gates gates;
  EXPECT_TRUE(gates.open(draw_number(0), false));
  gates.gate[gates.count++] = uniform_gate(1, 0.0, 1.0);
  EXPECT_TRUE(gates.open(draw_number(0), false));
  gates.gate[gates.count++] = uniform_gate(1, 1.0, 1.0);
  EXPECT_FALSE(gates.open(draw_number(0), false));
}

// ---- programs

constexpr Extent kExtent{6, 8, 1};

/// Flips columns always, or copies the image.
Stage bytes_stage(bool flips) {
  Stage stage{};
  stage.source = stage.target = test::layout_of(kExtent, NumberType::kUint8, 1, false);
  stage.raw = 1;
  stage.fill = stage.statistic = stage.mix = -1;
  if (!flips) return stage;
  stage.count = stage.after = 1;
  stage.ops[0].code = OpCode::kFlip;
  const Flip flip{kExtent, Axis::kColumn, 1.0};
  std::memcpy(stage.ops[0].settings, &flip, sizeof flip);
  return stage;
}

/// A mix of the halves of example and partner.
Stage mix_stage(std::uint32_t number) {
  Stage stage = bytes_stage(false);
  stage.raw = 0;
  stage.mix = 0;
  stage.count = 1;
  stage.ops[0].code = OpCode::kMix;
  stage.ops[0].number = number;
  const Mix mix{kExtent, 1.0, 1, 0};
  std::memcpy(stage.ops[0].settings, &mix, sizeof mix);
  return stage;
}

Stage between(Stage stage, std::int32_t from, std::int32_t to) {
  stage.from = from;
  stage.to = to;
  return stage;
}

TEST(TransformPrograms, StraightStagesReadWhatTheOneBeforeWrote) {
  const auto program =
      Program::straight({bytes_stage(true), bytes_stage(true), mix_stage(7),
                         bytes_stage(true), bytes_stage(false)});
  std::vector<std::int32_t> from, to, doubled;
  for (const Stage& stage : program.stages) {
    from.push_back(stage.from);
    to.push_back(stage.to);
    doubled.push_back(static_cast<std::int32_t>(stage.doubled));
  }
  EXPECT_EQ(from, (std::vector<std::int32_t>{kRecord, 0, 1, 2, 3}));
  EXPECT_EQ(to, (std::vector<std::int32_t>{0, 1, 2, 3, kLeaf}));
  EXPECT_EQ(doubled, (std::vector<std::int32_t>{1, 1, 0, 0, 0}));
  EXPECT_EQ(program.mix_operation(), 7u);
  std::size_t bytes = 0;
  for (const ImageBuffer& buffer : program.buffers(false)) bytes += buffer.all_bytes();
  EXPECT_EQ(bytes, (2 + 2 + 1 + 1) * 64u);
}

TEST(TransformPrograms, ABufferIsAsLargeAsItsLargestImage) {
  Program program{{between(bytes_stage(true), kRecord, 0),
                   between(bytes_stage(true), 0, 1), between(bytes_stage(true), 1, 0),
                   between(bytes_stage(true), 0, kLeaf)}};
  program.stages[2].target.extent = {20, 10, 1};
  const auto buffers = program.buffers(false);
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].bytes, 256u);
  EXPECT_EQ(buffers[1].bytes, 64u);
}

}  // namespace
}  // namespace echobuf::transform
