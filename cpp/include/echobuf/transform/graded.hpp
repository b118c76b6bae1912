#pragma once

#include "echobuf/transform/color.hpp"
#include "echobuf/transform/levels.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/warp.hpp"

// The changes of colour and the warps that automatic augmentations choose from, with a
// strength that is one of some levels. Each is a Jitter or a Warp once it is drawn.

namespace echobuf::transform {

/// A change of brightness, contrast or saturation by the factor 1 + level.
struct GradedColor {
  static constexpr Statistic kStatistic = Statistic::kMean;

  Extent in;
  uint32_t kind;  // a Jitter::Kind other than the hue
  uint32_t integer;
  float bound;
  Levels levels;

  ECHOBUF_MEMBERS(in, kind, integer, bound, levels)

  using Draw = Jitter::Draw;

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    const double factor = 1.0 + static_cast<double>(levels.pick(words));
    Draw d{};
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < Jitter::kKinds; ++k) {
      d.factor[k] = static_cast<float>(factor);
      d.rest[k] = static_cast<float>(1.0 - factor);
    }
    // First its kind, so that the mean is that of the image as it is.
    d.order = kind | (kind ^ 1u) << 4 | (kind ^ 2u) << 8 | (kind ^ 3u) << 12;
    return d;
  }
  /// The jitter that changes nothing but this.
  ECHOBUF_HD Jitter as_jitter() const {
    return {in, {0, 0, 0, 0}, {0, 0, 0, 0}, 1u << kind, integer, bound};
  }
  ECHOBUF_HD float grey_before_contrast(const Draw& d, const float* v) const {
    return as_jitter().grey_before_contrast(d, v);
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    as_jitter().step(d, kind, v);
  }
};

/// A shear, translation or rotation by a level.
struct GradedWarp {
  /// Shears are about the first pixel's corner, and of so many columns a row (rows a
  /// column); translations of pixels, cut to whole ones; rotations of degrees, about
  /// the middle and counter-clockwise.
  enum Kind : uint32_t { kShearX, kShearY, kTranslateX, kTranslateY, kRotate };

  Extent in;
  uint32_t bilinear;  // else nearest; 2: what is outside counts as 0
  uint32_t kind;
  float fill[kMostChannels];
  Levels levels;

  ECHOBUF_MEMBERS(in, bilinear, kind, fill, levels)

  using Draw = Warp::Draw;

  ECHOBUF_HD Draw draw(Words words) const {
    const float level = levels.pick(words);
    // The corner, seen from the middle.
    const double left = -0.5 * in.width;
    const double top = -0.5 * in.height;
    Draw d{1, 0, 0, 0, 1, 0};
    if (kind == kShearX) {
      d.xy = level;
      d.x0 = static_cast<float>(-left - level * top + left);
    } else if (kind == kShearY) {
      d.yx = level;
      d.y0 = static_cast<float>(level * -left - top + top);
    } else if (kind == kTranslateX) {
      d.x0 = -static_cast<float>(exact::cut_int(level));
    } else if (kind == kTranslateY) {
      d.y0 = -static_cast<float>(exact::cut_int(level));
    } else {
      const exact::Turn turn = exact::turn(-static_cast<double>(level));
      d.xx = static_cast<float>(turn.cosine);
      d.xy = static_cast<float>(turn.sine);
      d.yx = static_cast<float>(-turn.sine);
      d.yy = static_cast<float>(turn.cosine);
    }
    return d;
  }
  /// The warp that samples alike.
  ECHOBUF_HD Warp as_warp() const {
    Warp warp{};
    warp.in = in;
    warp.bilinear = bilinear;
    for (int c = 0; c < kMostChannels; ++c) warp.fill[c] = fill[c];
    return warp;
  }
  ECHOBUF_HD auto origin(const Draw& d, int32_t y, int32_t x) const {
    return as_warp().origin(d, y, x);
  }
  template <class Get>
  ECHOBUF_HD void sample(const Draw& d, int32_t y, int32_t x, float* v,
                         Get&& get) const {
    as_warp().sample(d, y, x, v, get);
  }

  ECHOBUF_HD Extent out() const { return in; }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_GRADED_OPERATIONS(X) \
  X(graded_color, GradedColor)       \
  X(graded_warp, GradedWarp)
