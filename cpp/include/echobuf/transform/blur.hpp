#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/maps.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Gaussian blur: a row is first blurred along its columns, then rows are put together.
// Both are sums of 32-bit floats that begin with 0 and add (a + b) * weight for the
// pairs of neighbours at one distance, the farthest first, then the middle * weight.
// What lies past an edge is the image mirrored, without the pixel at the edge.
//
// The weights are those of torchvision's GaussianBlur: exp(-k^2 / (2 sigma^2)) at
// distance k, divided by their sum; of both axes with one sigma, word 0 of the draw.
// Neighbours with less than 2^-30 of the middle's weight are left out.

namespace echobuf::transform {

struct Blur {
  static constexpr int32_t kMostRadius = 127;

  Extent in;
  int32_t radius[2];  // of rows, of columns; below their number
  double sigma[2];    // least and most

  ECHOBUF_MEMBERS(in, radius, sigma)

  struct Draw {
    double spread;   // the exponent at distance 1
    double over[2];  // 1 / the sum of all weights
    int32_t reach[2];
  };

  ECHOBUF_HD Draw draw(Words words) const {
    constexpr double kLeast = 9.313225746154785e-10;
    const double width = words.uniform(sigma[0], sigma[1]);
    Draw d{-0.5 / (width * width), {}, {}};
    ECHOBUF_UNROLL
    for (int axis = 0; axis < 2; ++axis) {
      double sum = 1.0;
      int32_t reach = 0;
      while (reach < radius[axis]) {
        const double next = share(d, reach + 1);
        if (next < kLeast) break;
        sum += 2.0 * next;
        ++reach;
      }
      d.over[axis] = 1.0 / sum;
      d.reach[axis] = reach;
    }
    return d;
  }

  ECHOBUF_HD static int32_t reach(const Draw& d, Axis axis) {
    return axis == Axis::kRow ? d.reach[0] : d.reach[1];
  }
  /// Of the two neighbours at distance `k`.
  ECHOBUF_HD static float weight(const Draw& d, Axis axis, int32_t k) {
    const double over = axis == Axis::kRow ? d.over[0] : d.over[1];
    return static_cast<float>(share(d, k) * over);
  }

  /// Pixel (y, x). `rows(k)`, `columns(k)`: the weights; `get(y, x, v)`: a pixel of the
  /// image.
  template <class Rows, class Columns, class Get>
  ECHOBUF_HD void sample(const Draw& d, const Rows& rows, const Columns& columns,
                         int32_t y, int32_t x, float* v, Get&& get) const {
    const auto across = [&](int32_t row, float* sum) {
      add_pairs(d.reach[1], x, in.width, columns, sum,
                [&](int32_t column, float* pixel) { get(row, column, pixel); });
    };
    add_pairs(d.reach[0], y, in.height, rows, v, across);
  }

  ECHOBUF_HD Extent out() const { return in; }

 private:
  ECHOBUF_HD static double share(const Draw& d, int32_t k) {
    return exact::exp(exact::most(d.spread * (static_cast<double>(k) * k), -690.0));
  }

  template <class Weights, class Get>
  ECHOBUF_HD void add_pairs(int32_t reach, int32_t at, int32_t size,
                            const Weights& weights, float* sum, Get&& get) const {
    for (int32_t c = 0; c < in.channels; ++c) sum[c] = 0.0f;
    for (int32_t k = reach; k >= 0; --k) {
      float before[kMostChannels] = {};
      get(border_index(Border::kReflect, at - k, size), before);
      const float weight = weights(k);
      if (k > 0) {
        float behind[kMostChannels] = {};
        get(border_index(Border::kReflect, at + k, size), behind);
        for (int32_t c = 0; c < in.channels; ++c)
          sum[c] = sum[c] + (before[c] + behind[c]) * weight;
      } else {
        for (int32_t c = 0; c < in.channels; ++c) sum[c] = sum[c] + before[c] * weight;
      }
    }
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_BLUR_OPERATIONS(X) X(blur, Blur)
