#pragma once

#include "echobuf/platform.hpp"
#include "echobuf/schedule/words.hpp"  // IWYU pragma: export
#include "echobuf/transform/exact.hpp"

// The numbers of distributions that words stand for, as schedule/words.hpp specifies
// them.

namespace echobuf::transform {

// The quantile of the standard normal distribution, by PPND7, in two parts. Its third,
// for r > 5, begins at e^-25, and (word + 1/2) * 2^-32 stays 2^-33 away from 0 and 1.

ECHOBUF_HD constexpr double probability(uint32_t word) {
  return (word + 0.5) * 2.3283064365386963e-10;
}
/// True if a word's quantile is that of `normal_centre`.
ECHOBUF_HD constexpr bool is_central(uint32_t word) {
  const double q = probability(word) - 0.5;
  return q <= 0.425 && q >= -0.425;
}
ECHOBUF_HD inline float normal_centre(uint32_t word) {
  const double q = probability(word) - 0.5;
  const double r = 0.180625 - q * q;
  return static_cast<float>(
      q *
      (((5.9109374720e+01 * r + 1.5929113202e+02) * r + 5.0434271938e+01) * r +
       3.3871327179e+00) /
      (((6.7187563600e+01 * r + 7.8757757664e+01) * r + 1.7895169469e+01) * r + 1.0));
}
ECHOBUF_HD inline float normal_tail(uint32_t word) {
  const double p = probability(word);
  const double q = p - 0.5;
  const double r =
      exact::square_root(-exact::log(exact::choose(q < 0, p, 1.0 - p))) - 1.6;
  const double value =
      (((1.7023821103e-01 * r + 1.3067284816e+00) * r + 2.7568153900e+00) * r +
       1.4234372777e+00) /
      ((1.2021132975e-01 * r + 7.3700164250e-01) * r + 1.0);
  return static_cast<float>(exact::choose(q < 0, -value, value));
}
/// The quantile that a word stands for.
ECHOBUF_HD inline float normal(uint32_t word) {
  return is_central(word) ? normal_centre(word) : normal_tail(word);
}

/// Of the distribution Beta(alpha, alpha).
ECHOBUF_HD inline double symmetric_beta(Words& words, double alpha) {
  constexpr int kAttempts = 64;
  for (int i = 0; i < kAttempts; ++i) {
    words.next_block();
    const double u = unit(words.word()) + 1.1641532182693481e-10;
    const double v = unit(words.word()) + 1.1641532182693481e-10;
    if (alpha <= 1.0) {
      // x = e^a, y = e^b; only their ratio counts, where both are too small for a
      // double.
      const double a = exact::log(u) / alpha;
      const double b = exact::log(v) / alpha;
      const double top = exact::most(a, b);
      const double x = exact::exp(exact::most(a - top, -690.0));
      const double y = exact::exp(exact::most(b - top, -690.0));
      if (exact::log(x + y) + top <= 0.0) return x / (x + y);
    } else {
      const double w = 2.0 * u - 1.0;
      const double s = w * w + v * v;
      if (s > 1.0) continue;
      const double power =
          exact::exp(exact::most(exact::log(s) * 2.0 / (2.0 * alpha - 1.0), -690.0));
      const double weight = 0.5 + w * v / s * exact::square_root(1.0 - power);
      return exact::least(exact::most(weight, 0.0), 1.0);
    }
  }
  return 0.5;
}

}  // namespace echobuf::transform
