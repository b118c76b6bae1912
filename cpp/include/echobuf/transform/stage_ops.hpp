#pragma once

#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/tile.hpp"

// The operations of a stage whose types and settings the compiler knows, so that its
// loops over them unroll and numbers become constants: see stage_kernel.hpp.
//
// A stage `S` says
//
//   static constexpr int kCount;               its operations
//   static constexpr StagePlan plan();
//   template <int i> static constexpr Op op(); the settings of operation i
//   static constexpr uint32_t number(int i);   what chance knows it by
//   static constexpr bool kGated;              gates come with launches; or left out
//   static constexpr bool kListed;             examples are in a table; or left out

namespace echobuf::transform {

/// True if the stage has gates.
template <class S>
ECHOBUF_HD constexpr bool is_gated() {
  if constexpr (requires { S::kGated; })
    return S::kGated;
  else
    return false;
}

/// True if a table lists the examples of the stage, since they differ in length.
template <class S>
ECHOBUF_HD constexpr bool is_listed() {
  if constexpr (requires { S::kListed; })
    return S::kListed;
  else
    return false;
}

/// The weights of a block's rows and columns, in its own memory.
struct TileWeights {
  int32_t first[kTileEdges];
  float weight[kTileWeights];
};

/// Those of one row or column.
struct Tabled {
  int32_t first_pixel;
  const float* weight;

  ECHOBUF_HD int32_t first() const { return first_pixel; }
  ECHOBUF_HD float operator()(int32_t k) const { return weight[k]; }
};

/// The place of a block in the image, and its weights.
struct TilePlace {
  Tile tile;
  int32_t top;
  int32_t left;
  const TileWeights* weights;

  ECHOBUF_HD Tabled operator()(Axis axis, int32_t j) const {
    const int32_t edge = axis == Axis::kRow ? j - top : tile.height + j - left;
    const int32_t at = axis == Axis::kRow ? edge * tile.row_taps
                                          : tile.height * tile.row_taps +
                                                (j - left) * tile.column_taps;
    return {weights->first[edge], weights->weight + at};
  }
  /// Of a blur, by distance.
  ECHOBUF_HD Tabled spread(Axis axis) const {
    return {0, weights->weight + (axis == Axis::kRow ? 0 : Blur::kMostRadius + 1)};
  }
};

/// The random choices of operation `i` and those behind it.
template <class S, int i = 0, bool end = (i == S::kCount)>
struct StageDraws {
  using Op = decltype(S::template op<i>());

  typename Op::Draw draw;
  StageDraws<S, i + 1> rest;

  ECHOBUF_HD explicit StageDraws(const DrawBlock* blocks)
      : draw(blocks[i].template as<typename Op::Draw>()), rest(blocks) {}
};
template <class S, int i>
struct StageDraws<S, i, true> {
  ECHOBUF_HD explicit StageDraws(const DrawBlock*) {}
};

/// The parts of a stage `S` that do not depend on random choices.
template <class S>
class StageChance {
 public:
  static constexpr int kMost = S::kCount > 0 ? S::kCount : 1;

  ECHOBUF_HD static constexpr StagePlan stage() { return S::plan(); }
  ECHOBUF_HD static constexpr Tile tile() {
    if constexpr (S::plan().core == Core::kResample)
      return resampling_tile(S::plan().target.extent,
                             S::template op<S::plan().before>());
    else if constexpr (S::plan().core == Core::kBlur)
      return blurring_tile(S::plan().target.extent);
    else
      return plain_tile(S::plan().target.extent);
  }

  /// Asks chance about operation `i`.
  ECHOBUF_HD static void draw(int32_t i, const DrawNumber& number, bool partner,
                              DrawBlock* blocks) {
    draw_from<0>(i, number, partner, blocks);
  }

 private:
  template <int k>
  ECHOBUF_HD static void draw_from(int32_t i, const DrawNumber& number, bool partner,
                                   DrawBlock* blocks) {
    if constexpr (k < S::kCount) {
      if (i != k) return draw_from<k + 1>(i, number, partner, blocks);
      constexpr uint32_t kNumber = S::number(k);
      Words words(number, kNumber + (partner ? kPartnerOperation : 0));
      if constexpr (alternates(kNumber)) words.alternate(number);
      constexpr auto op = S::template op<k>();
      using Draw = typename decltype(S::template op<k>())::Draw;
      if constexpr (requires { op.draw(words); })
        blocks[k].as<Draw>() = op.draw(words);
      else
        blocks[k].as<Draw>() = op.draw(words, S::plan().target.extent);
    }
  }
};

/// The operations of a stage `S`. Draws are copied, so that they stay in registers.
template <class S>
class StageOps : public StageChance<S> {
 public:
  ECHOBUF_HD StageOps(const DrawBlock* blocks, const TilePlace& place)
      : drawn_(blocks), place_(place) {}

  template <class Use>
  ECHOBUF_HD void visit(int32_t i, Use&& use) const {
    visit_from<0>(drawn_, i, use);
  }

  ECHOBUF_HD auto weights(const Stretch& stretch, Axis axis, int32_t i,
                          int32_t j) const {
    if constexpr (StageChance<S>::tile().row_taps > 0)
      return place_(axis, j);
    else
      return Weights(stretch, i);
  }
  template <class Draw>
  ECHOBUF_HD Tabled spread(const Draw&, Axis axis) const {
    return place_.spread(axis);
  }

 private:
  template <int k, class Draws, class Use>
  ECHOBUF_HD static void visit_from(const Draws& drawn, int32_t i, Use& use) {
    if constexpr (k < S::kCount) {
      if (i == k) {
        constexpr auto op = S::template op<k>();
        use(op, drawn.draw);
      } else {
        visit_from<k + 1>(drawn.rest, i, use);
      }
    }
  }

  const StageDraws<S> drawn_;
  const TilePlace place_;
};

// ---- stages whose numbers are bytes: what becomes of each is made once a block

namespace detail {

template <NumberType type>
struct FloatType {
  using Type = float;
};
template <>
struct FloatType<NumberType::kFloat16> {
  using Type = Half;
};
template <>
struct FloatType<NumberType::kBfloat16> {
  using Type = Bfloat;
};

/// True if operations from `i` on look at a number and its channel alone.
template <class S, int i>
ECHOBUF_HD constexpr bool is_by_number() {
  if constexpr (i >= S::kCount) {
    return true;
  } else {
    constexpr OpCode code = kCodeOf<decltype(S::template op<i>())>;
    return (code == OpCode::kNormalize || code == OpCode::kScale ||
            code == OpCode::kRound) &&
           is_by_number<S, i + 1>();
  }
}

template <class S, int i>
ECHOBUF_HD float change_number(float v, int channel) {
  if constexpr (i < S::kCount) {
    constexpr auto op = S::template op<i>();
    using Draw = typename decltype(S::template op<i>())::Draw;
    return change_number<S, i + 1>(op.element(Draw{}, v, channel, Place{}), channel);
  } else {
    return v;
  }
}

}  // namespace detail

/// True if pixels of bytes are moved as they are, and become floats one by one.
template <class S>
ECHOBUF_HD constexpr bool is_bytewise() {
  constexpr StagePlan plan = S::plan();
  constexpr bool floats = plan.target.type == NumberType::kFloat16 ||
                          plan.target.type == NumberType::kBfloat16 ||
                          plan.target.type == NumberType::kFloat32;
  return plan.raw == 0 && plan.core == Core::kNone && plan.mix < 0 &&
         plan.statistic < 0 && plan.source.type == NumberType::kUint8 && floats &&
         detail::is_by_number<S, plan.after>();
}

template <class S>
struct ByteTable {
  using Type = typename detail::FloatType<S::plan().target.type>::Type;

  Type value[S::plan().target.extent.channels][256];
};

/// A thread's part of the table: one byte, whatever its channel.
template <class S>
ECHOBUF_HD void tabulate(uint32_t thread, ByteTable<S>& table) {
  static_assert(kStageThreads == 256);
  for (int c = 0; c < S::plan().target.extent.channels; ++c) {
    const float v =
        detail::change_number<S, S::plan().after>(static_cast<float>(thread), c);
    table.value[c][thread] = number_of<typename ByteTable<S>::Type>(v);
  }
}

}  // namespace echobuf::transform
