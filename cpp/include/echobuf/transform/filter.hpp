#pragma once

#include "echobuf/transform/exact.hpp"

// Filters of resizing: the weight of a pixel by its distance from the centre.
//
// Source of the cubic: R. G. Keys, "Cubic convolution interpolation for digital image
// processing", IEEE Transactions on Acoustics, Speech, and Signal Processing 29 (1981).

namespace echobuf::transform {

enum class Filter : uint32_t { kTriangle, kCubic };

/// Half of a filter's width.
ECHOBUF_HD constexpr int32_t filter_reach(Filter filter) {
  return filter == Filter::kCubic ? 2 : 1;
}

ECHOBUF_HD constexpr double triangle(double x) {
  return exact::most(1.0 - (x < 0 ? -x : x), 0.0);
}

/// The slope of the cubic at distance 1, as torch chooses it.
inline constexpr double kCubicOfMany = -0.5;   // with antialiasing
inline constexpr double kCubicOfFour = -0.75;  // without

ECHOBUF_HD constexpr double cubic(double x, double a) {
  x = x < 0 ? -x : x;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

}  // namespace echobuf::transform
