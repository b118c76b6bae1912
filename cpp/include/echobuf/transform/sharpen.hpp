#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/levels.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Sharpness: a pixel is moved away from, or to, the weighted mean of its 3 x 3
// neighbours, as torchvision's adjust_sharpness does it. Pixels at the edge of the
// image stay as they are.
//
// Words of a draw: 0 decides if the image is changed, 1 chooses the level, 2 its sign.

namespace echobuf::transform {

struct Sharpen {
  Extent in;
  uint32_t integer;  // 8 bits: the mean is rounded, the result is cut
  float bound;       // the largest number
  double p;
  Levels levels;  // of the share of the mean: 1 - factor

  ECHOBUF_MEMBERS(in, integer, bound, p, levels)

  struct Draw {
    double share;  // a 32-bit float
    uint32_t on;
  };

  ECHOBUF_HD Draw draw(Words words) const {
    const bool on = words.chance(p);
    return {static_cast<double>(levels.pick(words)), on ? 1u : 0u};
  }

  /// True if pixel (y, x) has all neighbours.
  ECHOBUF_HD bool is_inside(int32_t y, int32_t x) const {
    return y > 0 && x > 0 && y < in.height - 1 && x < in.width - 1;
  }
  /// True if anything is changed.
  ECHOBUF_HD bool is_active(const Draw& d) const {
    return d.on != 0 && in.height > 2 && in.width > 2;
  }

  /// A number from its neighbours: those of the row above, beside it, and below.
  template <bool kInteger>
  ECHOBUF_HD float sharpened(const Draw& d, float a0, float a1, float a2, float b0,
                             float v, float b2, float c0, float c1, float c2) const {
    const float sum = (((a0 + a1) + a2) + (b0 + b2)) + ((c0 + c1) + c2);
    float mean = sum * (1.0f / 13.0f) + v * (5.0f / 13.0f);
    if constexpr (kInteger) {
      // A sum of integers over 13 is never near a half. The product and the sum are
      // exact in 64 bits, and rounded once, as torch's fused ones are.
      mean = exact::round_even(mean);
      const double moved =
          static_cast<double>(v) + static_cast<double>(mean - v) * d.share;
      return bounded<true>(static_cast<float>(moved));
    } else {
      return bounded<false>(v + (mean - v) * static_cast<float>(d.share));
    }
  }
  /// The result for a number at the edge.
  template <bool kInteger>
  ECHOBUF_HD float bounded(float v) const {
    // In this order GCC makes vectors of it; a factor is at most 10^6.
    if constexpr (kInteger) v = static_cast<float>(static_cast<int32_t>(v));
    return exact::least(exact::most(v, 0.0f), kInteger ? 255.0f : bound);
  }

  /// Pixel (y, x). `get(y, x, v)`: a pixel of the image.
  template <class Get>
  ECHOBUF_HD void sample(const Draw& d, int32_t y, int32_t x, float* v,
                         Get&& get) const {
    get(y, x, v);
    if (!is_active(d)) return;
    if (!is_inside(y, x)) {
      for (int32_t c = 0; c < in.channels; ++c)
        v[c] = integer != 0 ? bounded<true>(v[c]) : bounded<false>(v[c]);
      return;
    }
    float near[8][kMostChannels] = {};
    ECHOBUF_UNROLL
    for (int32_t k = 0; k < 8; ++k) {
      const int32_t at = k < 4 ? k : k + 1;
      get(y + at / 3 - 1, x + at % 3 - 1, near[k]);
    }
    for (int32_t c = 0; c < in.channels; ++c) {
      const auto of = [&](auto whole) {
        return sharpened<decltype(whole)::kInteger>(
            d, near[0][c], near[1][c], near[2][c], near[3][c], v[c], near[4][c],
            near[5][c], near[6][c], near[7][c]);
      };
      v[c] = integer != 0 ? of(Kind<true>{}) : of(Kind<false>{});
    }
  }

  ECHOBUF_HD Extent out() const { return in; }

 private:
  template <bool integer>
  struct Kind {
    static constexpr bool kInteger = integer;
  };
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_SHARPEN_OPERATIONS(X) X(sharpen, Sharpen)
