// Gates of stages, and programs whose stages have them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "echobuf/transform/gates.hpp"
#include "echobuf/transform/stage_executor.hpp"
#include "transform_cases.hpp"

namespace echobuf::transform {
namespace {

using test::Bytes;

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

TEST(TransformGates, OneAlternativeOfAChoiceIsOpen) {
  const std::vector<double> bounds = {0.0, 0.25, 0.25, 0.9, 1.0};
  std::vector<int> taken(4);
  for (std::uint64_t draw = 0; draw < 2000; ++draw)
    for (const bool partner : {false, true}) {
      int open = 0;
      for (std::size_t i = 0; i < 4; ++i)
        if (is_open(uniform_gate(3, bounds[i], bounds[i + 1]), draw_number(draw),
                    partner)) {
          ++open;
          ++taken[i];
        }
      ASSERT_EQ(open, 1);
    }
  EXPECT_EQ(taken[1], 0);  // its bounds are equal
  EXPECT_GT(taken[0], 0);
  EXPECT_GT(taken[2], taken[3]);
}

TEST(TransformGates, EachOperationHasOnePositionInAnOrder) {
  for (std::uint64_t draw = 0; draw < 200; ++draw)
    for (std::uint32_t alternative = 0; alternative < 5; ++alternative) {
      int open = 0;
      for (std::uint32_t position = 0; position < 5; ++position)
        open += is_open({2, 5, position, alternative, 0, 0}, draw_number(draw), false);
      ASSERT_EQ(open, 1);
    }
}

TEST(TransformGates, APartnerHasChoicesByItself) {
  const Gate gate = uniform_gate(1, 0.0, 0.5);
  int same = 0;
  for (std::uint64_t draw = 0; draw < 1000; ++draw)
    same += is_open(gate, draw_number(draw), false) ==
            is_open(gate, draw_number(draw), true);
  EXPECT_GT(same, 400);
  EXPECT_LT(same, 600);
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
constexpr std::size_t kPixels = 48;

/// Bytes `first`, `first` + 1, ...
Bytes counted(int first) {
  Bytes image(kPixels);
  for (std::size_t i = 0; i < kPixels; ++i)
    image[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return image;
}

/// The place of pixel `i` before its columns were flipped.
std::size_t flipped(std::size_t i) {
  const auto width = static_cast<std::size_t>(kExtent.width);
  return i / width * width + width - 1 - i % width;
}

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

Stage gated(Stage stage, const Gate& gate) {
  stage.gates.gate[stage.gates.count++] = gate;
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

/// A choice between a flip and nothing, twice; the last one writes the leaf.
TEST(TransformPrograms, OneAlternativeIsCarriedOut) {
  const auto choice = [](std::uint32_t number, std::int32_t from, std::int32_t to) {
    return std::pair{
        between(gated(bytes_stage(true), uniform_gate(number, 0.0, 0.5)), from, to),
        between(gated(bytes_stage(false), uniform_gate(number, 0.5, 1.0)), from, to)};
  };
  const auto [flip, leave] = choice(0, kRecord, 0);
  const auto [flip_again, leave_again] = choice(1, 0, kLeaf);
  const Program program{{flip, leave, flip_again, leave_again}};
  StageExecutor executor(program, nullptr);
  const Bytes image = counted(0);
  Bytes turned(kPixels);
  for (std::size_t i = 0; i < kPixels; ++i) turned[i] = image[flipped(i)];
  int both = 0;
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    const DrawNumber number = draw_number(draw);
    const bool first = is_open(flip.gates.gate[0], number, false);
    const bool second = is_open(flip_again.gates.gate[0], number, false);
    both += first && second;
    Bytes got(image.size());
    executor.execute(number, image.data(), nullptr, got.data());
    ASSERT_EQ(got, first != second ? turned : image);
  }
  EXPECT_GT(both, 10);
}

/// The partner goes through the choices before the mix by itself; whether they are
/// mixed is the example's choice.
TEST(TransformPrograms, AMixThatIsChosenSeesItsPartnersBranch) {
  const Gate flips = uniform_gate(0, 0.0, 0.5);
  const Gate mixes = uniform_gate(1, 0.0, 0.5);
  const auto closed = [](const Gate& gate) {
    return uniform_gate(gate.number, gate.high, 1.0);
  };
  Program program{{between(gated(bytes_stage(true), flips), kRecord, 0),
                   between(gated(bytes_stage(false), closed(flips)), kRecord, 0),
                   between(gated(mix_stage(2), mixes), 0, kLeaf),
                   between(gated(bytes_stage(false), closed(mixes)), 0, kLeaf)}};
  program.stages[0].doubled = program.stages[1].doubled = 1;
  StageExecutor executor(program, nullptr);
  const Bytes own = counted(0), others = counted(100);
  int mixed = 0;
  for (std::uint64_t draw = 0; draw < 300; ++draw) {
    const DrawNumber number = draw_number(draw);
    const bool own_flips = is_open(flips, number, false);
    const bool others_flip = is_open(flips, number, true);
    Bytes got(kPixels);
    executor.execute(number, own.data(), others.data(), got.data());
    for (std::size_t i = 0; i < kPixels; ++i) {
      const auto value = static_cast<std::size_t>(got[i]);
      if (value < 100) {
        ASSERT_EQ(value, own_flips ? flipped(i) : i);
        continue;
      }
      ASSERT_TRUE(is_open(mixes, number, false));
      ASSERT_EQ(value - 100, others_flip ? flipped(i) : i);
      ++mixed;
    }
  }
  EXPECT_GT(mixed, 50);
}

}  // namespace
}  // namespace echobuf::transform
