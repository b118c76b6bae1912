#pragma once

#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/transform/stage_examples.hpp"
#include "echobuf/transform/stage_ops.hpp"

// Carrying out a stage on the device, for rows of a batch: a block makes a tile of the
// image of one row. First its threads find the record and its partner and draw the
// random numbers; then they make pixels, neighbours side by side. Compiled for the host
// too.
//
// `Ops` is StageOps in a kernel; on the host it finds the operations in memory, where
// the stage's address is.

namespace echobuf::transform {

/// The arguments of a launch, by value, beside the parts of the batch.
struct StageLaunch {
  uint64_t stage = 0;   // address of the settings, for the host build
  uint64_t plan = 0;    // address of the plan with the parts; 0: they come by value
  uint64_t stride = 0;  // bytes from slot to slot
  uint64_t field = 0;   // offset of the field in a slot
  uint64_t field_bytes = 0;  // of a row of the field, where records are ragged
  uint64_t image[2] = {};    // of the first row, own and partner's, made by the stage
                             // before; 0: they are in the slots
  uint64_t image_bytes = 0;  // from row to row
  uint64_t target[2] = {};   // of the first row; 0: where the examples say
  uint64_t target_bytes = 0;
  uint64_t sums = 0;  // statistics: of own and partners' images, of rows, of tiles

  uint32_t row = 0;     // of the batch: the first that is made
  uint32_t count = 0;   // rows
  uint32_t ragged = 0;  // rows of the record, where records are ragged
  uint32_t mix = 0;     // the operation that chooses the partner

  StageExamples examples;  // of stages that list them
  Gates gates;
};
static_assert(sizeof(StageLaunch) + sizeof(DrawParts) <= 4096);

/// The parts of a batch, wherever they are.
struct PartsOf {
  const DrawParts* parts;
  uint64_t plan;

  ECHOBUF_HD uint32_t count() const {
    return plan != 0 ? PlannedParts{plan}.count() : parts->count;
  }
  ECHOBUF_HD BatchNumber number() const {
    return plan != 0 ? PlannedParts{plan}.number() : parts->number();
  }
  ECHOBUF_HD const DrawPart& operator[](uint32_t i) const {
    return plan != 0 ? PlannedParts{plan}[i] : (*parts)[i];
  }
};

/// A block's own memory.
template <int operations>
struct StageMemory {
  uint64_t image[2];  // own, the partner's
  DrawBlock draws[2][operations];
};

/// The pixels that a block makes, of a row's own image or of its partner's.
struct StageBlock {
  Tile tile;
  uint32_t row;        // counted from the first of the launch
  uint32_t frame = 0;  // of a clip
  uint32_t frames;     // of each row
  uint32_t number;     // of the tile in the image
  uint32_t partner;    // 1: of the partner's image
  int32_t top, left, bottom, right;
  uint64_t listed = 0;  // where the result of the row goes, if the examples say that

  ECHOBUF_HD StageBlock(const Tile& of, const StagePlan& stage, uint32_t block,
                        uint32_t partners)
      : tile(of),
        row(block / of.count()),
        frames(static_cast<uint32_t>(stage.frames)),
        number(block - row * of.count()),
        partner(partners) {
    if (frames != 1) {
      frame = row % frames;
      row /= frames;
    }
    const Extent& extent = stage.target.extent;
    const auto at = static_cast<int32_t>(number);
    top = at / of.across * of.height;
    left = at % of.across * of.width;
    bottom = exact::least(top + of.height, extent.height);
    right = exact::least(left + of.width, extent.width);
  }

  /// Keeps the first `rows` rows of a piece that has `piece` rows: these are rows of
  /// the image, or parts of its only row.
  ECHOBUF_HD void cut(const StagePlan& stage, uint32_t rows, uint32_t piece) {
    const Extent& extent = stage.target.extent;
    const auto most = static_cast<int32_t>(rows);
    const auto all = static_cast<int32_t>(piece);
    if (extent.height == 1)
      right = exact::least(right, extent.width / all * most);
    else
      bottom = exact::least(bottom, extent.height / all * most);
  }

  ECHOBUF_HD bool needs(uint32_t who, const StagePlan& stage) const {
    return who == partner || (who == 1 && stage.mix >= 0);
  }
  /// The address of the result, of the row and frame.
  ECHOBUF_HD uint64_t target(const StageLaunch& a, const StagePlan& stage) const {
    const uint64_t first =
        listed != 0 ? listed : a.target[partner] + row * a.target_bytes;
    return first + frame * static_cast<uint64_t>(stage.target.size());
  }
  /// The pixels of a thread, or the first of each group of them.
  template <int32_t group = 1, class Use>
  ECHOBUF_HD void pixels(uint32_t thread, Use&& use) const {
    const auto t = static_cast<int32_t>(thread);
    const int32_t step = group * tile.columns;
    for (int32_t y = top + t / tile.columns; y < bottom; y += tile.rows())
      for (int32_t x = left + t % tile.columns; x < right; x += step) use(y, x);
  }
};

/// The address of the image of a row of the batch, own or the partner's.
template <bool listed>
ECHOBUF_HD uint64_t find_image(const StageLaunch& a, const PartsOf& parts,
                               uint32_t count, uint32_t row, uint32_t who) {
  if (a.image[who] != 0) return a.image[who] + row * a.image_bytes;
  if constexpr (listed)
    if (a.examples.table != 0) return StagePiece(a.examples, a.row + row).source();
  row += a.row;
  if (a.ragged != 0) {
    const DrawPart& part = parts[0];
    if (who != 0) row = partner_of(parts.number().of(row, true), a.mix, row, a.ragged);
    return slot_of(part, part.offset, a.stride) + a.field + row * a.field_bytes;
  }
  const DrawPart& part = part_of(row, parts, count);
  const uint32_t place = part.offset + (row - part.row);
  const uint64_t slot = who == 0
                            ? slot_of(part, place, a.stride)
                            : partner_slot_of(part, place, a.stride,
                                              parts.number().of(row, false), a.mix);
  return slot + a.field;
}

/// Returns the number that keys the random choices of a row of the launch.
template <bool listed>
ECHOBUF_HD DrawNumber number_of(const StageLaunch& a, const PartsOf& parts,
                                uint32_t row) {
  if constexpr (listed)
    if (a.examples.table != 0)
      return StagePiece(a.examples, a.row + row).number(parts.number().key);
  return parts.number().of(a.row + row, a.ragged != 0);
}

/// First step: a thread finds an image, or draws the random numbers of one operation;
/// threads with tasks are spread over the warps.
template <class Ops, int most>
ECHOBUF_HD void find(const StageLaunch& a, const PartsOf& parts, uint32_t count,
                     const StageBlock& block, uint32_t thread, const Ops& ops,
                     StageMemory<most>& memory) {
  constexpr bool kListed = Ops::kListed;
  constexpr uint32_t kWarps = kStageThreads / 32;
  const StagePlan stage = ops.stage();
  const auto operations = static_cast<uint32_t>(stage.count);
  const uint32_t task = thread % 32 * kWarps + thread / 32;
  const uint32_t who = task / (operations + 1);
  const uint32_t which = task % (operations + 1);
  if (who > 1 || !block.needs(who, stage)) return;
  if (which == 0) {
    memory.image[who] = find_image<kListed>(a, parts, count, block.row, who) +
                        block.frame * static_cast<uint64_t>(stage.source.size());
  } else {
    DrawNumber number = number_of<kListed>(a, parts, block.row);
    number.first_element += stage.first_element(block.frame);
    ops.draw(static_cast<int32_t>(which) - 1, number, who == 1, memory.draws[who]);
  }
}

/// Beside it, where the stage has gates: a thread draws whether one of them is open.
template <bool listed>
ECHOBUF_HD void find_gate(const StageLaunch& a, const PartsOf& parts,
                          const StageBlock& block, uint32_t thread,
                          bool* is_gate_open) {
  const uint32_t gate = kStageThreads - 1 - thread;
  if (gate >= a.gates.count) return;
  const DrawNumber number = number_of<listed>(a, parts, block.row);
  is_gate_open[gate] = is_open(a.gates.gate[gate], number, block.partner != 0);
}

/// Next step, where examples are listed: where the result of the row goes, and how much
/// of it there is.
ECHOBUF_HD inline void find_place(const StageLaunch& a, const StagePlan& stage,
                                  StageBlock& block) {
  if (a.examples.table == 0) return;
  const StagePiece piece(a.examples, a.row + block.row);
  if (a.target[0] == 0) block.listed = piece.target();
  if (a.examples.piece != 0) block.cut(stage, piece.rows(), a.examples.piece);
}

/// The weights of a blur, one of each thread.
template <class Ops>
ECHOBUF_HD void weigh_distances(const Ops& ops, uint32_t thread, TileWeights& weights) {
  constexpr auto kCount = static_cast<uint32_t>(Blur::kMostRadius + 1);
  if (thread >= 2 * kCount) return;
  const Axis axis = thread < kCount ? Axis::kRow : Axis::kColumn;
  const auto k = static_cast<int32_t>(thread % kCount);
  ops.visit(ops.stage().before, [&](const auto& op, const auto& draw) {
    if constexpr (requires { op.reach(draw, axis); })
      if (k <= op.reach(draw, axis)) weights.weight[thread] = op.weight(draw, axis, k);
  });
}

/// Next step, where pixels are resampled or blurred: the weights of the rows and
/// columns of the tile. `ops`: those of one image.
template <class Ops>
ECHOBUF_HD void weigh(const Ops& ops, const StageBlock& block, uint32_t thread,
                      TileWeights& weights) {
  const StagePlan stage = ops.stage();
  if (stage.core == Core::kBlur) return weigh_distances(ops, thread, weights);
  const Tile& tile = block.tile;
  const auto edge = static_cast<int32_t>(thread);
  if (edge >= tile.height + tile.width) return;
  const Axis axis = edge < tile.height ? Axis::kRow : Axis::kColumn;
  const int32_t j =
      axis == Axis::kRow ? block.top + edge : block.left + edge - tile.height;
  if (j >= (axis == Axis::kRow ? block.bottom : block.right)) return;
  const int32_t i = unmap(ops, stage.first_after(), stage.after, axis, j);
  if (i == kOutside) return;
  const int32_t at = axis == Axis::kRow ? edge * tile.row_taps
                                        : tile.height * tile.row_taps +
                                              (edge - tile.height) * tile.column_taps;
  ops.visit(stage.before, [&](const auto& op, const auto& draw) {
    if constexpr (requires { op.stretch(draw, axis); }) {
      const Stretch stretch = op.stretch(draw, axis);
      const Weights of(stretch, i);
      weights.first[edge] = of.first();
      const int32_t taps = stretch.taps();
      for (int32_t k = 0; k < taps; ++k) weights.weight[at + k] = of(k);
    }
  });
}

/// Last step: the pixels of a thread. `ops`: those of the example and its partner.
template <class Ops, int most>
ECHOBUF_HD void make(const StageLaunch& a, const StageBlock& block, uint32_t thread,
                     const Ops& ops, const Ops& partner_ops,
                     const StageMemory<most>& memory) {
  const StagePlan stage = ops.stage();
  const uint64_t target = block.target(a, stage);
  const uint64_t image = memory.image[block.partner];
  const uint64_t partner = stage.mix >= 0 ? memory.image[1] : 0;
  const Layout& to = stage.target;
  block.pixels(thread, [&](int32_t y, int32_t x) {
    if (stage.raw != 0) return pull_raw(ops, image, target, y, x);
    float v[kMostChannels];
    pull(ops, image, partner_ops, partner, y, x, v);
    for (int32_t c = 0; c < to.extent.channels; ++c)
      store_number(to.type, target + static_cast<uint64_t>(to.offset(y, x, c)), v[c]);
  });
}

/// The same for a stage `S` of bytes: what becomes of each is looked up.
template <class S, class Ops, int most>
ECHOBUF_HD void make_of_bytes(const StageLaunch& a, const StageBlock& block,
                              uint32_t thread, const Ops& ops,
                              const StageMemory<most>& memory,
                              const ByteTable<S>& table) {
  const uint64_t target = block.target(a, ops.stage());
  const Puller<Ops> puller(ops, memory.image[block.partner]);
  const Layout to = ops.stage().target;
  constexpr int32_t kGroup = S::plan().target.extent.channels <= 4 ? 4 : 1;
  block.template pixels<kGroup>(thread, [&](int32_t y, int32_t x) {
    // All of a group are asked for before one is written.
    uint32_t v[kGroup][kMostChannels];
    const auto group = [&](auto&& use) {
      ECHOBUF_UNROLL
      for (int32_t k = 0; k < kGroup; ++k) {
        const int32_t at = x + k * block.tile.columns;
        if (at < block.right) use(at, v[k]);
      }
    };
    group([&](int32_t at, uint32_t* bytes) { puller.moved_bytes(y, at, bytes); });
    group([&](int32_t at, const uint32_t* bytes) {
      for (int32_t c = 0; c < to.extent.channels; ++c)
        device::store(target + static_cast<uint64_t>(to.offset(y, at, c)),
                      table.value[c][bytes[c]]);
    });
  });
}

}  // namespace echobuf::transform
