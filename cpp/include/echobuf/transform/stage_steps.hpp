#pragma once

#include "echobuf/draw/block_threads.hpp"
#include "echobuf/transform/stage_kernel.hpp"
#include "echobuf/transform/statistic_steps.hpp"

// The steps of a block that carries out a stage, on the device and on the host.
//
// A `Stage` is a KnownStage in a kernel. It says
//
//   kMost                                  operations, at most
//   kGated                                 false: it has no gates
//   kListed                                false: no table lists its examples
//   kBytewise                              numbers are looked up; `Table` keeps them
//   kMayWeigh, kMayMix                     false: it never does
//   kChannels                              of the result, at most
//   may(statistic)                         false: it never needs it
//   statistic()                            what it needs of its images
//   stage(), tile(), draw()                as in StageChance
//   ops(draws, place)                      its operations, drawn
//
// and what the block's memory must have follows from these.

namespace echobuf::transform {

/// A stage `S` that the compiler knows.
template <class S>
struct KnownStage : StageChance<S> {
  using Table = ByteTable<S>;
  static constexpr bool kGated = is_gated<S>();
  static constexpr bool kListed = is_listed<S>();
  static constexpr bool kBytewise = is_bytewise<S>();
  static constexpr bool kMayWeigh = StageChance<S>::tile().row_taps > 0;
  static constexpr bool kMayMix = S::plan().mix >= 0;
  static constexpr int kChannels = S::plan().target.extent.channels;

  ECHOBUF_HD static constexpr Statistic statistic() {
    if constexpr (S::plan().statistic >= 0)
      return statistic_of<decltype(S::template op<S::plan().statistic>())>();
    else
      return Statistic::kNone;
  }
  ECHOBUF_HD static constexpr bool may(Statistic kind) { return statistic() == kind; }

  ECHOBUF_HD static StageOps<S> ops(const DrawBlock* draws, const TilePlace& place) {
    return {draws, place};
  }
};

namespace detail {

template <int images>
struct KeptWeights {
  TileWeights weights[images];
  ECHOBUF_HD TileWeights* weights_of(int image) { return weights + image; }
};
template <>
struct KeptWeights<0> {
  ECHOBUF_HD TileWeights* weights_of(int) { return nullptr; }
};

template <class Stage, bool kept>
struct KeptTable {};
template <class Stage>
struct KeptTable<Stage, true> {
  typename Stage::Table table;
};

template <bool kept>
struct KeptGates {};
template <>
struct KeptGates<true> {
  bool is_gate_open[kMostGates];
};

}  // namespace detail

/// A block's own memory: nothing that the stage does not need.
template <class Stage, bool summing>
struct BlockMemory
    : StageMemory<Stage::kMost>,
      detail::KeptWeights<Stage::kMayWeigh ? (Stage::kMayMix && !summing ? 2 : 1) : 0>,
      detail::KeptGates<Stage::kGated>,
      detail::KeptTable<Stage, Stage::kBytewise && !summing>,
      StatisticMemory<Stage, summing> {};

/// A block of a launch with blocks of rows, their frames and tiles along x; along y 1,
/// or 2 where the partner's image is made, too. `summing`: its statistic alone.
template <bool summing, class Threads, class Stage>
ECHOBUF_HD void run_block(const Threads& threads, const Stage& known,
                          const StageLaunch& a, const DrawParts& by_value, uint32_t x,
                          uint32_t y, BlockMemory<Stage, summing>& memory) {
  const PartsOf parts{&by_value, a.plan};
  const uint32_t count = parts.count();
  if (count == 0) return;  // a plan of nothing
  const StagePlan stage = known.stage();
  const Tile tile = known.tile();
  StageBlock block(tile, stage, x, y);
  if constexpr (Stage::kListed) find_place(a, stage, block);
  const auto ops_of = [&](uint32_t who, int image) {
    const TilePlace place{tile, block.top, block.left, memory.weights_of(image)};
    return known.ops(memory.draws[who], place);
  };

  threads.all([&](uint32_t thread) {
    find(a, parts, count, block, thread, known, memory);
    if constexpr (Stage::kGated)
      find_gate<Stage::kListed>(a, parts, block, thread, memory.is_gate_open);
    if constexpr (Stage::kBytewise && !summing) tabulate(thread, memory.table);
  });
  if constexpr (Stage::kGated) {  // if one is closed, another stage writes the target
    for (uint32_t i = 0; i < a.gates.count; ++i)
      if (!memory.is_gate_open[i]) return;
  }
  if constexpr (!Stage::may(Statistic::kNone) && !summing)
    find_statistic(
        threads, a, block, known, [&](uint32_t who) { return ops_of(who, 0); }, memory);
  const auto ops = ops_of(block.partner, 0);
  if constexpr (Stage::kBytewise && !summing) {
    return threads.last([&](uint32_t thread) {
      make_of_bytes(a, block, thread, ops, memory, memory.table);
    });
  }
  if constexpr (Stage::kMayMix && !summing) {
    if (stage.mix >= 0) {
      const auto partner_ops = ops_of(1, 1);
      if constexpr (Stage::kMayWeigh) {
        if (tile.row_taps > 0)
          threads.all([&](uint32_t thread) {
            weigh(ops, block, thread, *memory.weights_of(0));
            weigh(partner_ops, block, thread, *memory.weights_of(1));
          });
      }
      return threads.last(
          [&](uint32_t thread) { make(a, block, thread, ops, partner_ops, memory); });
    }
  }
  if constexpr (Stage::kMayWeigh) {
    if (tile.row_taps > 0)
      threads.all(
          [&](uint32_t thread) { weigh(ops, block, thread, *memory.weights_of(0)); });
  }
  if constexpr (summing)
    look_at_block(threads, a, block, known, ops, memory);
  else
    threads.last([&](uint32_t thread) { make(a, block, thread, ops, ops, memory); });
}

}  // namespace echobuf::transform
