#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Rotation, translation, scaling and shear about a point, in one. The pixel of the
// result asks where it comes from: the inverse map.

namespace echobuf::transform {

/// A place in an image; 0 is the middle of its first pixel.
struct Point {
  float x, y;
};

namespace detail {

ECHOBUF_HD inline bool is_within(const Extent& in, int32_t y, int32_t x) {
  return y >= 0 && x >= 0 && y < in.height && x < in.width;
}

/// As torchvision does it: what is outside counts 0 and is covered by the fill, if
/// there is one.
template <class Op, class Get>
ECHOBUF_HD void blend_at(const Op& op, float from_y, float from_x, float* v,
                         Get&& get) {
  const int32_t x = exact::floor_int(from_x);
  const int32_t y = exact::floor_int(from_y);
  const float right = from_x - static_cast<float>(x);
  const float down = from_y - static_cast<float>(y);
  float cover = 0.0f;
  for (int c = 0; c < op.in.channels; ++c) v[c] = 0.0f;
  for (int k = 0; k < 4; ++k) {
    const int32_t sy = y + k / 2;
    const int32_t sx = x + k % 2;
    if (!is_within(op.in, sy, sx)) continue;
    const float weight =
        (k / 2 != 0 ? down : 1.0f - down) * (k % 2 != 0 ? right : 1.0f - right);
    cover = cover + weight;
    for (int c = 0; c < op.in.channels; ++c) v[c] = v[c] + get(sy, sx, c) * weight;
  }
  if (op.bilinear == 2) return;
  for (int c = 0; c < op.in.channels; ++c)
    v[c] = (v[c] - op.fill[c]) * cover + op.fill[c];
}

}  // namespace detail

/// The pixel at any place in an image, or its fill outside (also for NaN). `op`: `in`,
/// `bilinear` and `fill` as a `Warp` has them; `get` as in `Warp::sample`.
template <class Op, class Get>
ECHOBUF_HD void sample_at(const Op& op, float from_y, float from_x, float* v,
                          Get&& get) {
  const bool near = from_x > -1.5f && from_y > -1.5f &&
                    from_x < static_cast<float>(op.in.width) + 0.5f &&
                    from_y < static_cast<float>(op.in.height) + 0.5f;
  if (!near) {
    for (int c = 0; c < op.in.channels; ++c) v[c] = op.fill[c];
  } else if (op.bilinear == 0) {
    const auto sx = static_cast<int32_t>(exact::round_even(from_x));
    const auto sy = static_cast<int32_t>(exact::round_even(from_y));
    const bool in_it = detail::is_within(op.in, sy, sx);
    for (int c = 0; c < op.in.channels; ++c) v[c] = in_it ? get(sy, sx, c) : op.fill[c];
  } else {
    detail::blend_at(op, from_y, from_x, v, get);
  }
}

/// The random choices of an affine map: from the image, x' = size * (a x + b y) + right
/// and y' = size * (c x + d y) + down, about its centre; a d - b c = 1.
struct AffineDraw {
  double a, b, c, d;
  double size;
  double right;
  double down;
};

/// Asks chance, for the angle, the shifts, the scale and both shears in this order.
ECHOBUF_HD inline AffineDraw draw_affine(Words words, const double* degrees,
                                         const double* shift, const double* scale,
                                         const double* shear_x, const double* shear_y) {
  const double angle = words.antithetic(degrees[0], degrees[1]);
  const double right = exact::round_even(words.antithetic(-shift[0], shift[0]));
  const double down = exact::round_even(words.antithetic(-shift[1], shift[1]));
  const double size = words.antithetic(scale[0], scale[1]);
  const double along_x = words.antithetic(shear_x[0], shear_x[1]);
  const double along_y = words.antithetic(shear_y[0], shear_y[1]);
  const exact::Turn rotation = exact::turn(angle);
  const exact::Turn tilted = exact::turn(angle - along_y);
  const exact::Turn x = exact::turn(along_x);
  const exact::Turn y = exact::turn(along_y);
  const double tangent = x.sine / x.cosine;
  return {tilted.cosine / y.cosine,
          -tilted.cosine * tangent / y.cosine - rotation.sine,
          tilted.sine / y.cosine,
          -tilted.sine * tangent / y.cosine + rotation.cosine,
          size,
          right,
          down};
}

struct Warp {
  Extent in;
  uint32_t bilinear;  // else nearest; 2: what is outside counts as 0
  double degrees[2];  // counter-clockwise is negative
  double shift[2];    // most, in pixels: to the right, down
  double scale[2];
  double shear_x[2];  // degrees
  double shear_y[2];
  double centre[2];  // x, y, from the middle of the image
  float fill[kMostChannels];

  ECHOBUF_MEMBERS(in, bilinear, degrees, shift, scale, shear_x, shear_y, centre, fill)

  /// The source of pixel (x, y), seen from the middle of the image.
  struct Draw {
    float xx, xy, x0;
    float yx, yy, y0;
  };

  ECHOBUF_HD Draw draw(Words words) const {
    const AffineDraw t = draw_affine(words, degrees, shift, scale, shear_x, shear_y);
    const double cx = -centre[0] - t.right;
    const double cy = -centre[1] - t.down;
    const double xx = t.d / t.size, xy = -t.b / t.size;
    const double yx = -t.c / t.size, yy = t.a / t.size;
    return {static_cast<float>(xx),
            static_cast<float>(xy),
            static_cast<float>(xx * cx + xy * cy + centre[0]),
            static_cast<float>(yx),
            static_cast<float>(yy),
            static_cast<float>(yx * cx + yy * cy + centre[1])};
  }

  /// The origin of pixel (y, x) of the result.
  ECHOBUF_HD Point origin(const Draw& d, int32_t y, int32_t x) const {
    const float u =
        static_cast<float>(x) + (0.5f - 0.5f * static_cast<float>(in.width));
    const float w =
        static_cast<float>(y) + (0.5f - 0.5f * static_cast<float>(in.height));
    return {
        (u * d.xx + w * d.xy) + (d.x0 + (0.5f * static_cast<float>(in.width) - 0.5f)),
        (u * d.yx + w * d.yy) + (d.y0 + (0.5f * static_cast<float>(in.height) - 0.5f))};
  }

  /// Pixel (y, x) of the result. `get(y, x, c)`: a number of the image, inside of it.
  template <class Get>
  ECHOBUF_HD void sample(const Draw& d, int32_t y, int32_t x, float* v,
                         Get&& get) const {
    const Point from = origin(d, y, x);
    sample_at(*this, from.y, from.x, v, get);
  }

  ECHOBUF_HD Extent out() const { return in; }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_WARP_OPERATIONS(X) X(warp, Warp)
