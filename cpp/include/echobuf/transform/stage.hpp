#pragma once

#include "echobuf/transform/blur.hpp"
#include "echobuf/transform/color.hpp"
#include "echobuf/transform/gates.hpp"
#include "echobuf/transform/graded.hpp"
#include "echobuf/transform/image.hpp"
#include "echobuf/transform/maps.hpp"
#include "echobuf/transform/mix.hpp"
#include "echobuf/transform/perspective.hpp"
#include "echobuf/transform/pixels.hpp"
#include "echobuf/transform/resample.hpp"
#include "echobuf/transform/sharpen.hpp"
#include "echobuf/transform/statistic.hpp"
#include "echobuf/transform/tokens.hpp"
#include "echobuf/transform/tone.hpp"
#include "echobuf/transform/warp.hpp"
#include "echobuf/transform/warped_points.hpp"

// A chain of operations as it is carried out: in stages, each from an image in memory
// to an image in memory. Within a stage pixels are moved first, then their numbers
// changed, and nothing is written in between. Most chains are one stage. Stages are
// carried out one after another, those with gates at some draws only.

namespace echobuf::transform {

/// All operations but those of the caller's: X(name that chains have for it, its type).
#define ECHOBUF_OPERATIONS(X)       \
  ECHOBUF_MAPS_OPERATIONS(X)        \
  ECHOBUF_RESAMPLE_OPERATIONS(X)    \
  ECHOBUF_WARP_OPERATIONS(X)        \
  ECHOBUF_PIXELS_OPERATIONS(X)      \
  ECHOBUF_COLOR_OPERATIONS(X)       \
  ECHOBUF_MIX_OPERATIONS(X)         \
  ECHOBUF_TOKENS_OPERATIONS(X)      \
  ECHOBUF_TONE_OPERATIONS(X)        \
  ECHOBUF_GRADED_OPERATIONS(X)      \
  ECHOBUF_BLUR_OPERATIONS(X)        \
  ECHOBUF_SHARPEN_OPERATIONS(X)     \
  ECHOBUF_PERSPECTIVE_OPERATIONS(X) \
  ECHOBUF_POINTS_OPERATIONS(X)      \
  ECHOBUF_WARPED_POINTS_OPERATIONS(X)

enum class OpCode : uint32_t {
#define ECHOBUF_CODE(name, Op) k##Op,
  ECHOBUF_OPERATIONS(ECHOBUF_CODE)
#undef ECHOBUF_CODE
      kCustom,  // the caller's; see custom.hpp
};

template <class Op>
inline constexpr OpCode kCodeOf = OpCode::kCustom;
#define ECHOBUF_CODE_OF(name, Op) \
  template <>                     \
  inline constexpr OpCode kCodeOf<Op> = OpCode::k##Op;
ECHOBUF_OPERATIONS(ECHOBUF_CODE_OF)
#undef ECHOBUF_CODE_OF

template <class Op>
concept MapOp =
    requires(const Op& op, const typename Op::Draw& d) { op.source(d, Axis::kRow, 0); };
template <class Op>
concept ElementOp = requires(const Op& op, const typename Op::Draw& d,
                             const Place& at) { op.element(d, 0.0f, 0, at); };
template <class Op>
concept PixelOp = requires(const Op& op, const typename Op::Draw& d, float* v,
                           const Place& at) { op.pixel(d, v, at); };

/// The settings of one operation.
struct alignas(16) OpBlock {
  static constexpr unsigned kBytes = 232;

  OpCode code;
  uint32_t number;  // that chance knows it by
  uint64_t table;   // of a custom operation, on the host
  alignas(8) unsigned char settings[kBytes];

  template <class Op>
  ECHOBUF_HD const Op& as() const {
    static_assert(sizeof(Op) <= kBytes && alignof(Op) <= 8);
    return *reinterpret_cast<const Op*>(settings);
  }
};

/// The random choices of one operation.
struct alignas(8) DrawBlock {
  static constexpr unsigned kBytes = 96;

  unsigned char bytes[kBytes];

  template <class Draw>
  ECHOBUF_HD Draw& as() {
    static_assert(sizeof(Draw) <= kBytes && alignof(Draw) <= 8);
    return *reinterpret_cast<Draw*>(bytes);
  }
  template <class Draw>
  ECHOBUF_HD const Draw& as() const {
    return const_cast<DrawBlock*>(this)->as<Draw>();
  }
};

/// The step between the maps of a stage.
enum class Core : uint32_t {
  kNone,
  kResample,
  kWarp,
  kOneHot,
  kBlur,
  kSharpen,
  kPerspective,
};

/// True if a core is an operation between the maps.
ECHOBUF_HD constexpr bool is_operation(Core core) {
  return core != Core::kNone && core != Core::kOneHot;
}

/// The rounding of integers after pixels were resampled.
enum class Whole : uint32_t { kNo, kHalfUp, kHalfEven };

inline constexpr int kMostOps = 12;  // of a stage

/// All of a stage but the settings of its operations.
struct StagePlan {
  Layout source;
  Layout target;
  uint32_t raw;  // numbers are moved as bytes, or replaced, and never computed with
  Core core;
  Whole whole;
  // Operations: [0, before) maps; the core; up to `after` maps; up to `count` numbers.
  int32_t before;
  int32_t after;
  int32_t count;
  int32_t fill;       // the map whose border is a fill, or -1
  int32_t statistic;  // the operation that needs one of the image, or -1
  int32_t mix;        // the mix, or -1
  // Images that lie one behind another in source and target: of a clip. All are made
  // with the same random choices.
  int32_t frames = 1;

  ECHOBUF_MEMBERS(source, target, raw, core, whole, before, after, count, fill,
                  statistic, mix, frames)

  ECHOBUF_HD constexpr int32_t first_after() const {
    return before + (is_operation(core) ? 1 : 0);
  }
  /// Bytes of the result, of all frames.
  ECHOBUF_HD constexpr int64_t target_bytes() const { return frames * target.size(); }
  /// The number of the first element of a frame, for random words.
  ECHOBUF_HD constexpr uint32_t first_element(uint32_t frame) const {
    return frame * static_cast<uint32_t>(target.extent.pixels()) *
           static_cast<uint32_t>(target.extent.channels);
  }
};

inline constexpr int32_t kRecord = -1;  // in place of a buffer that is read
inline constexpr int32_t kLeaf = -1;    // of one that is written

struct Stage : StagePlan {
  OpBlock ops[kMostOps];
  Gates gates;
  int32_t from = kRecord;  // the buffer that it reads
  int32_t to = kLeaf;      // the buffer that it writes
  uint32_t doubled = 0;    // the partner's image is made, too
};

/// The statistic that operations of a kind need, if a stage says that they do.
template <class Op>
ECHOBUF_HD constexpr Statistic statistic_of() {
  if constexpr (requires { Op::kStatistic; })
    return Op::kStatistic;
  else
    return Statistic::kNone;
}
constexpr Statistic statistic_of(OpCode code) {
  switch (code) {
#define ECHOBUF_STATISTIC(name, Op) \
  case OpCode::k##Op:               \
    return statistic_of<Op>();
    ECHOBUF_OPERATIONS(ECHOBUF_STATISTIC)
#undef ECHOBUF_STATISTIC
    case OpCode::kCustom:
      break;
  }
  return Statistic::kNone;
}
constexpr Statistic statistic_of(const Stage& stage) {
  if (stage.statistic < 0) return Statistic::kNone;
  return statistic_of(stage.ops[stage.statistic].code);
}

}  // namespace echobuf::transform
