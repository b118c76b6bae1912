#pragma once

#include "echobuf/platform.hpp"

// Arithmetic that gives the same bits on every processor: + - * / and the square root
// as IEEE 754 rounds them, and what can be made of these. No libm, whose last bits
// differ between hosts and devices. Compilers must not contract a*b+c:
// -ffp-contract=off, NVRTC --fmad=false.

#if defined(__FAST_MATH__)
#error "echobuf's transforms need IEEE arithmetic: compile without -ffast-math"
#endif

namespace echobuf::transform::exact {

// ---- numbers as their bits

ECHOBUF_HD inline uint32_t bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(uint32_t, value);
#endif
}
ECHOBUF_HD inline uint64_t bits(double value) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint64_t>(__double_as_longlong(value));
#else
  return __builtin_bit_cast(uint64_t, value);
#endif
}
ECHOBUF_HD inline float float_of(uint32_t value) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(value);
#else
  return __builtin_bit_cast(float, value);
#endif
}
ECHOBUF_HD inline double double_of(uint64_t value) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(static_cast<long long>(value));
#else
  return __builtin_bit_cast(double, value);
#endif
}

// ---- choices

/// `a` or `b`. On hosts by their bits: of a choice between results GCC makes a branch
/// around the arithmetic, and then no vectors.
ECHOBUF_HD inline float choose(bool first, float a, float b) {
#if defined(__CUDA_ARCH__)
  return first ? a : b;
#else
  const uint32_t mask = 0u - static_cast<uint32_t>(first);
  return float_of((bits(a) & mask) | (bits(b) & ~mask));
#endif
}
ECHOBUF_HD inline double choose(bool first, double a, double b) {
#if defined(__CUDA_ARCH__)
  return first ? a : b;
#else
  const uint64_t mask = uint64_t{0} - static_cast<uint64_t>(first);
  return double_of((bits(a) & mask) | (bits(b) & ~mask));
#endif
}

/// `v` within bounds; NaN stays.
ECHOBUF_HD inline float limit(float v, float low, float high) {
  v = choose(v < low, low, v);
  return choose(high < v, high, v);
}

// ---- rounding

/// The nearest integer, of two the even one. For |x| < 2^51.
ECHOBUF_HD inline double round_even(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  return (x + kShift) - kShift;
}
/// The same for |x| < 2^22.
ECHOBUF_HD inline float round_even(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}
/// The largest integer that is not above x. For |x| < 2^31.
ECHOBUF_HD constexpr int32_t floor_int(double x) {
  const auto cut = static_cast<int32_t>(x);
  return cut - (static_cast<double>(cut) > x ? 1 : 0);
}
ECHOBUF_HD constexpr int32_t floor_int(float x) {
  const auto cut = static_cast<int32_t>(x);
  return cut - (static_cast<float>(cut) > x ? 1 : 0);
}

template <class T>
ECHOBUF_HD constexpr T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
ECHOBUF_HD constexpr T most(T a, T b) {
  return a < b ? b : a;
}

/// Cut toward 0. What an int32_t has not becomes the next that it has, NaN becomes 0:
/// a plain cast would be undefined, and differs between hosts and devices.
ECHOBUF_HD inline int32_t cut_int(float x) {
  constexpr float kMost = 2147483520.0f;  // the largest float below 2^31
  const float within = limit(x, -kMost, kMost);
  return static_cast<int32_t>(choose(within == within, within, 0.0f));
}

ECHOBUF_HD inline double square_root(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

// ---- functions, to a few units in the last place of a double

inline constexpr double kLn2High =
    6.93147180369123816490e-01;  // 20 zero bits at its end
inline constexpr double kLn2Low = 1.90821492927058770002e-10;

/// The natural logarithm of a normal number above 0.
ECHOBUF_HD inline double log(double x) {
  constexpr uint64_t kMantissa = 0x000FFFFFFFFFFFFFull;
  constexpr uint64_t kOne = 0x3FF0000000000000ull;
  uint64_t word = bits(x);
  int32_t exponent = static_cast<int32_t>(word >> 52) - 1023;
  double m = double_of((word & kMantissa) | kOne);  // [1, 2)
  const bool above = m > 1.4142135623730951;
  m = choose(above, m * 0.5, m);
  exponent += above ? 1 : 0;
  // log m = 2 artanh s; |s| < 0.1716, so twelve terms are enough.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 1.0 / 25.0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  const double e = exponent;
  return e * kLn2High + (e * kLn2Low + 2.0 * s * sum);
}

/// e^x for |x| < 700.
ECHOBUF_HD inline double exp(double x) {
  const double k = round_even(x * 1.44269504088896338700);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| < 0.35
  double sum = 1.0;
  for (int n = 14; n >= 1; --n) sum = sum * r / n + 1.0;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023);
  return sum * double_of(exponent << 52);
}

struct Turn {
  double sine;
  double cosine;
};

/// Sine and cosine of an angle in degrees, |angle| < 10^6; exact at multiples of 90.
ECHOBUF_HD inline Turn turn(double degrees) {
  const double quarters = round_even(degrees / 90.0);
  const double x = (degrees - quarters * 90.0) * 0.017453292519943295;  // |x| < 0.79
  const double z = x * x;
  double sine = 1.0;
  for (int n = 16; n >= 2; n -= 2) sine = 1.0 - sine * z / (n * (n + 1));
  sine *= x;
  double cosine = 1.0;
  for (int n = 17; n >= 1; n -= 2) cosine = 1.0 - cosine * z / (n * (n + 1));
  switch (static_cast<int32_t>(quarters) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace echobuf::transform::exact
