#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/warp.hpp"
#include "echobuf/transform/words.hpp"

// The corners of an image moved to random places inside of it, as torchvision's
// RandomPerspective does it.
//
// Words of a draw: 0 decides if the image is changed; 1 to 8 are x and y of where its
// corners go: top left, top right, bottom right, bottom left.
//
// Source of the map: P. S. Heckbert, "Fundamentals of texture mapping and image
// warping", master's thesis, University of California, Berkeley (1989), section 2.2.3.

namespace echobuf::transform {

/// (x, y) goes to ((m0 x + m1 y + m2) / w, (m3 x + m4 y + m5) / w), with
/// w = m6 x + m7 y + 1.
struct Homography {
  double m[8];
};

/// The places of an image's corners: top left, top right, bottom right, bottom left.
struct Corners {
  int32_t x[4];
  int32_t y[4];
};

namespace detail {

/// True if no three corners lie on a line.
ECHOBUF_HD inline bool is_quadrilateral(const Corners& of) {
  for (int i = 0; i < 4; ++i) {
    const int j = (i + 1) % 4, k = (i + 2) % 4;
    const int64_t area = int64_t{of.x[j] - of.x[i]} * (of.y[k] - of.y[i]) -
                         int64_t{of.x[k] - of.x[i]} * (of.y[j] - of.y[i]);
    if (area == 0) return false;
  }
  return true;
}

/// Brings the last of nine coefficients to 1; the identity where that cannot be.
ECHOBUF_HD inline Homography normalized(const double* m) {
  if (m[8] == 0.0) return {{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}};
  Homography h{};
  for (int i = 0; i < 8; ++i) h.m[i] = m[i] / m[8];
  return h;
}

/// The map of the unit square to corners, (0, 0), (1, 0), (1, 1), (0, 1) in order,
/// times a number that makes all coefficients whole.
ECHOBUF_HD inline void square_to(const Corners& to, double* m) {
  const double x0 = to.x[0], x1 = to.x[1], x2 = to.x[2], x3 = to.x[3];
  const double y0 = to.y[0], y1 = to.y[1], y2 = to.y[2], y3 = to.y[3];
  const double dx1 = x1 - x2, dx2 = x3 - x2, sx = (x0 - x1) + (x2 - x3);
  const double dy1 = y1 - y2, dy2 = y3 - y2, sy = (y0 - y1) + (y2 - y3);
  const double det = dx1 * dy2 - dx2 * dy1;
  const double g = sx * dy2 - dx2 * sy;
  const double h = dx1 * sy - sx * dy1;
  m[0] = (x1 - x0) * det + g * x1;
  m[1] = (x3 - x0) * det + h * x3;
  m[2] = x0 * det;
  m[3] = (y1 - y0) * det + g * y1;
  m[4] = (y3 - y0) * det + h * y3;
  m[5] = y0 * det;
  m[6] = g;
  m[7] = h;
  m[8] = det;
}

}  // namespace detail

/// The map of an image of `width` x `height` pixels to `corners`; its own corners are
/// the centres of its outermost pixels, counted from 0. The identity where three
/// corners lie on a line.
ECHOBUF_HD inline Homography map_to(const Corners& corners, int32_t width,
                                    int32_t height) {
  double m[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
  if (detail::is_quadrilateral(corners)) {
    detail::square_to(corners, m);
    for (int i = 0; i < 9; i += 3) {
      m[i] = m[i] / (width - 1);
      m[i + 1] = m[i + 1] / (height - 1);
    }
  }
  return detail::normalized(m);
}

/// The way back.
ECHOBUF_HD inline Homography map_back(const Corners& corners, int32_t width,
                                      int32_t height) {
  double back[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};
  if (detail::is_quadrilateral(corners)) {
    double m[9];
    detail::square_to(corners, m);
    const double right = width - 1, down = height - 1;
    back[0] = (m[4] * m[8] - m[5] * m[7]) * right;
    back[1] = (m[2] * m[7] - m[1] * m[8]) * right;
    back[2] = (m[1] * m[5] - m[2] * m[4]) * right;
    back[3] = (m[5] * m[6] - m[3] * m[8]) * down;
    back[4] = (m[0] * m[8] - m[2] * m[6]) * down;
    back[5] = (m[2] * m[3] - m[0] * m[5]) * down;
    back[6] = m[3] * m[7] - m[4] * m[6];
    back[7] = m[1] * m[6] - m[0] * m[7];
    back[8] = m[0] * m[4] - m[1] * m[3];
  }
  return detail::normalized(back);
}

/// True if neither `map_to` nor `map_back` is the identity for want of such a map.
ECHOBUF_HD inline bool is_invertible(const Corners& corners) {
  if (!detail::is_quadrilateral(corners)) return false;
  double m[9];
  detail::square_to(corners, m);
  return m[0] * m[4] - m[1] * m[3] != 0.0;
}

struct Perspective {
  Extent in;
  uint32_t bilinear;  // else nearest
  double p;
  int32_t down;   // places that each corner can have: rows
  int32_t right;  // and columns
  float fill[kMostChannels];

  ECHOBUF_MEMBERS(in, bilinear, p, down, right, fill)

  /// The source of pixel (x, y): coefficients as in `Homography`. `on`: 0 leaves each
  /// pixel as it is, and the coefficients are those of the identity.
  struct Draw {
    uint32_t on;
    float m[8];
  };

  ECHOBUF_HD Draw draw(Words words) const {
    if (!words.chance(p)) return {0, {1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f}};
    const Corners to = corners(words);
    const Homography back = map_back(to, in.width, in.height);
    Draw d{detail::is_quadrilateral(to) ? 1u : 0u, {}};
    for (int i = 0; i < 8; ++i) d.m[i] = static_cast<float>(back.m[i]);
    return d;
  }

  /// The places of the corners; `words`: those from 1 on.
  ECHOBUF_HD Corners corners(Words& words) const {
    Corners to{};
    for (int i = 0; i < 4; ++i) {
      const auto x = static_cast<int32_t>(words.below(static_cast<uint32_t>(right)));
      const auto y = static_cast<int32_t>(words.below(static_cast<uint32_t>(down)));
      to.x[i] = i == 1 || i == 2 ? in.width - right + x : x;
      to.y[i] = i >= 2 ? in.height - down + y : y;
    }
    return to;
  }

  /// Pixel (y, x) of the result. `get(y, x, c)`: a number of the image, inside of it.
  template <class Get>
  ECHOBUF_HD void sample(const Draw& d, int32_t y, int32_t x, float* v,
                         Get&& get) const {
    if (d.on == 0) {
      for (int c = 0; c < in.channels; ++c) v[c] = get(y, x, c);
      return;
    }
    const Point from = origin(d, y, x);
    sample_at(*this, from.y, from.x, v, get);
  }

  /// The origin of pixel (y, x) of the result.
  ECHOBUF_HD Point origin(const Draw& d, int32_t y, int32_t x) const {
    const float u = static_cast<float>(x) + 0.5f;
    const float w = static_cast<float>(y) + 0.5f;
    const float over = (d.m[6] * u + d.m[7] * w) + 1.0f;
    return {((d.m[0] * u + d.m[1] * w) + d.m[2]) / over - 0.5f,
            ((d.m[3] * u + d.m[4] * w) + d.m[5]) / over - 0.5f};
  }

  ECHOBUF_HD Extent out() const { return in; }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_PERSPECTIVE_OPERATIONS(X) X(perspective, Perspective)
