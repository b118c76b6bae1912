#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/statistic.hpp"
#include "echobuf/transform/words.hpp"

// Brightness, contrast, saturation and hue, changed in an order that is drawn anew each
// time, as torchvision's ColorJitter does it.

namespace echobuf::transform {

/// A red, green and blue number, as hue, saturation and value in 0 ... 1.
struct Hsv {
  float h, s, v;
};

ECHOBUF_HD ECHOBUF_INLINE inline Hsv hsv_of(float r, float g, float b) {
  const float high = exact::most(exact::most(r, g), b);
  const float low = exact::least(exact::least(r, g), b);
  const float range = high - low;
  const bool grey = range == 0.0f;
  const float over = exact::choose(grey, 1.0f, range);
  const float s = range / exact::choose(grey, 1.0f, high);
  const float rc = (high - r) / over;
  const float gc = (high - g) / over;
  const float bc = (high - b) / over;
  const float from_red = bc - gc;
  const float from_green = (rc + 2.0f) - bc;
  const float from_blue = (gc + 4.0f) - rc;
  using exact::choose;  // no branches, for the sake of vectors
  float h = choose(high == r, from_red, choose(high == g, from_green, from_blue));
  h = h * (1.0f / 6.0f) + 1.0f;
  h = h - static_cast<float>(exact::cut_int(h));  // h > 0, or NaN
  return {h, s, high};
}

ECHOBUF_HD ECHOBUF_INLINE inline float unit_clamp(float x) {
  return exact::limit(x, 0.0f, 1.0f);
}

ECHOBUF_HD ECHOBUF_INLINE inline void rgb_of(const Hsv& c, float* rgb) {
  const float h6 = c.h * 6.0f;
  using exact::choose;
  // A float: of integers GCC makes a switch.
  const auto sector = static_cast<float>(exact::cut_int(h6));  // h6 >= 0, or NaN
  const float f = h6 - sector;
  const float sf = c.s * f;
  const float rest = 1.0f - c.s;
  const float q = unit_clamp((1.0f - sf) * c.v);
  const float t = unit_clamp((sf + rest) * c.v);
  const float p = unit_clamp(rest * c.v);
  const float i = choose(sector >= 6.0f, sector - 6.0f, sector);
  rgb[0] = choose(i == 4.0f, t, choose(i == 1.0f, q, p));
  rgb[0] = choose(i == 0.0f, c.v, choose(i == 5.0f, c.v, rgb[0]));
  rgb[1] = choose(i == 0.0f, t, choose(i == 3.0f, q, p));
  rgb[1] = choose(i == 1.0f, c.v, choose(i == 2.0f, c.v, rgb[1]));
  rgb[2] = choose(i == 2.0f, t, choose(i == 5.0f, q, p));
  rgb[2] = choose(i == 3.0f, c.v, choose(i == 4.0f, c.v, rgb[2]));
}

struct Jitter {
  static constexpr Statistic kStatistic = Statistic::kMean;

  enum Kind : uint32_t { kBrightness, kContrast, kSaturation, kHue, kKinds };

  Extent in;
  double least[kKinds];  // factors; of the hue a shift
  double most[kKinds];
  uint32_t active;   // bit k: kind k is changed
  uint32_t integer;  // 8 bits: each step is cut to a whole number
  float bound;       // the largest number

  ECHOBUF_MEMBERS(in, least, most, active, integer, bound)

  struct Draw {
    float factor[kKinds];
    float rest[kKinds];  // 1 - factor
    float mean;          // of the grey image that the contrast is about
    uint32_t order;      // of the kinds, 4 bits each

    // No index is computed in here: a device would keep it in memory then.
    ECHOBUF_HD uint32_t kind(uint32_t k) const { return order >> 4 * k & 15u; }
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    Draw d{};
    uint32_t which = words.below(24);
    uint32_t left =  // the kinds, 4 bits each
        kBrightness | uint32_t{kContrast} << 4 | kSaturation << 8 | kHue << 12;
    uint32_t orders = 6;  // of the kinds that come after
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < kKinds; ++k) {
      const uint32_t at = which / orders;
      which -= at * orders;
      const uint32_t before = (1u << 4 * at) - 1;
      d.order |= (left >> 4 * at & 15u) << 4 * k;
      left = (left & before) | (left >> 4 & ~before);
      if (k < 2) orders /= 3 - k;
    }
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < kKinds; ++k) {
      const double factor = words.antithetic(least[k], most[k]);
      d.factor[k] = static_cast<float>(factor);
      d.rest[k] = static_cast<float>(1.0 - factor);
    }
    return d;
  }

  ECHOBUF_HD bool has(uint32_t kind) const { return (active >> kind & 1u) != 0; }

  /// The term of the mean for the contrast: a pixel before that step, grey.
  ECHOBUF_HD float grey_before_contrast(const Draw& d, const float* v) const {
    float w[3] = {v[0], in.channels == 3 ? v[1] : 0.0f, in.channels == 3 ? v[2] : 0.0f};
    for (uint32_t k = 0; k < kKinds && d.kind(k) != kContrast; ++k)
      step(d, d.kind(k), w);
    return grey(w);
  }

  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    for (uint32_t k = 0; k < kKinds; ++k) step(d, d.kind(k), v);
  }

  ECHOBUF_HD ECHOBUF_INLINE void step(const Draw& d, uint32_t kind, float* v) const {
    if (!has(kind)) return;
    if (kind == kBrightness) {
      const float factor = d.factor[kBrightness];
      for (int c = 0; c < in.channels; ++c) v[c] = settled(v[c] * factor);
    } else if (kind == kContrast) {
      for (int c = 0; c < in.channels; ++c) v[c] = blended(v[c], d.mean, d, kContrast);
    } else if (in.channels == 3 && kind == kSaturation) {
      const float g = grey(v);
      for (int c = 0; c < 3; ++c) v[c] = blended(v[c], g, d, kSaturation);
    } else if (in.channels == 3) {
      turn_hue(d.factor[kHue], v);
    }
  }

  ECHOBUF_HD ECHOBUF_INLINE float grey(const float* v) const {
    if (in.channels != 3) return v[0];
    const float g = (v[0] * 0.2989f + v[1] * 0.587f) + v[2] * 0.114f;
    return integer != 0 ? static_cast<float>(exact::cut_int(g)) : g;
  }

 private:
  ECHOBUF_HD ECHOBUF_INLINE float settled(float v) const {
    v = exact::limit(v, 0.0f, bound);
    return integer != 0 ? static_cast<float>(exact::cut_int(v)) : v;
  }
  ECHOBUF_HD ECHOBUF_INLINE float blended(float v, float other, const Draw& d,
                                          uint32_t kind) const {
    return settled(v * d.factor[kind] + other * d.rest[kind]);
  }

  ECHOBUF_HD ECHOBUF_INLINE void turn_hue(float by, float* v) const {
    const float unit = integer != 0 ? 1.0f / 255.0f : 1.0f;
    Hsv c = hsv_of(v[0] * unit, v[1] * unit, v[2] * unit);
    c.h = c.h + by;
    c.h = exact::choose(c.h < 0.0f, c.h + 1.0f,
                        exact::choose(c.h >= 1.0f, c.h - 1.0f, c.h));
    float rgb[3];
    rgb_of(c, rgb);
    for (int i = 0; i < 3; ++i)
      v[i] =
          integer != 0 ? static_cast<float>(exact::cut_int(rgb[i] * 255.999f)) : rgb[i];
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_COLOR_OPERATIONS(X) X(jitter, Jitter)
