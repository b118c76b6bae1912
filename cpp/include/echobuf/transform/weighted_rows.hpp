// Weighted sums of rows, number by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

/// Rows with a weight each. They are added to zero, in their order, and a few at a time
/// while the sum is in registers.
struct WeightedRows {
  WeightedRows() = default;
  explicit WeightedRows(int32_t most)
      : rows(static_cast<std::size_t>(most)), weights(static_cast<std::size_t>(most)) {}

  std::vector<const float*> rows;
  std::vector<float> weights;

  /// Writes the sums of the first `taps` rows, as whole numbers if `whole`.
  void add_up(int32_t taps, float* to, int32_t count, bool whole) const {
    constexpr int32_t kMost = 4;
    for (int32_t done = 0; done < taps;) {
      const int32_t left = taps - done;
      const bool last = left <= kMost;
      const auto first = static_cast<std::size_t>(done);
      const auto* const from = rows.data() + first;
      const auto* const by = weights.data() + first;
      const bool rounded = last && whole;
      if (left == 1)
        add<1>(from, by, to, count, done > 0, rounded);
      else if (left == 2)
        add<2>(from, by, to, count, done > 0, rounded);
      else if (left == 3)
        add<3>(from, by, to, count, done > 0, rounded);
      else
        add<kMost>(from, by, to, count, done > 0, rounded);
      done += kMost;
    }
  }

 private:
  struct None {};

  template <int taps>
  static void add(const float* const* rows, const float* weights, float* to,
                  int32_t count, bool more, bool whole) {
    if (whole)
      more ? add<taps, true, true>(rows, weights, to, count)
           : add<taps, false, true>(rows, weights, to, count);
    else
      more ? add<taps, true, false>(rows, weights, to, count)
           : add<taps, false, false>(rows, weights, to, count);
  }
  template <int taps, bool more, bool whole>
  static void add(const float* const* rows, const float* weights, float* to,
                  int32_t count) {
    const float* row[taps];
    float weight[taps];
    for (int k = 0; k < taps; ++k) {
      row[k] = rows[k];
      weight[k] = weights[k];
    }
    work_fast([row, weight, to, count] {
      float* const __restrict__ sums = to;
      for (int32_t x = 0; x < count; ++x) {
        float sum = more ? sums[x] : 0.0f;
        for (int k = 0; k < taps; ++k) sum = sum + row[k][x] * weight[k];
        if constexpr (whole) sum = Puller<None>::whole(Whole::kHalfUp, sum);
        sums[x] = sum;
      }
    });
  }
};

}  // namespace echobuf::transform
