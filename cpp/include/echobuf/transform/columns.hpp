// Resampling a row along its columns: each number of the result is a weighted sum of
// neighbours in the row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/rows.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace echobuf::transform {

/// Which neighbours, and their weights. Columns that have none keep weights of 0.
struct Columns {
  /// As many columns are worked on at once, which must come from twice as many numbers.
  static constexpr int32_t kBlock = 16;
  /// Numbers that are read, but not used, past the end of a row.
  static constexpr int32_t kSlack = 2 * kBlock;

  explicit Columns(int32_t width, int32_t most_taps)
      : width(width),
        padded((width + kBlock - 1) / kBlock * kBlock),
        first(static_cast<std::size_t>(padded)),
        base(static_cast<std::size_t>(padded / kBlock)),
        weights(static_cast<std::size_t>(padded) *
                static_cast<std::size_t>(most_taps)) {}

  /// Finds the blocks whose numbers come from close by.
  void find_blocks() {
    for (int32_t x = 0; x < padded; x += kBlock) {
      const int32_t end = std::min(x + kBlock, width);
      const auto from = first.begin() + x;
      const auto [low, high] = std::minmax_element(from, first.begin() + end);
      const bool close = *high - *low + taps <= 2 * kBlock;
      base[static_cast<std::size_t>(x / kBlock)] = close ? *low : -1;
      std::fill(first.begin() + end, first.begin() + x + kBlock, *low);
    }
  }

  int32_t width;
  int32_t padded;
  int32_t taps = 0;
  std::vector<int32_t> first;  // neighbour of each column
  std::vector<int32_t> base;  // of each block, the first number; -1: they are far apart
  std::vector<float> weights;  // the k-th of all columns together
};

namespace detail {

inline void blend_plain(const Columns& columns, const float* __restrict__ from,
                        float* __restrict__ to, int32_t begin, int32_t end) {
  const std::ptrdiff_t padded = columns.padded;
  for (int32_t x = begin; x < end; ++x) {
    const float* numbers = from + columns.first[static_cast<std::size_t>(x)];
    const float* weights = columns.weights.data() + x;
    float sum = 0.0f;
    for (int32_t k = 0; k < columns.taps; ++k)
      sum = sum + numbers[k] * weights[k * padded];
    to[x] = sum;
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline void blend_avx512(
    const Columns& columns, const float* from, float* to) {
  for (int32_t x = 0; x < columns.padded; x += 16) {
    const int32_t base = columns.base[static_cast<std::size_t>(x / 16)];
    if (base < 0) {
      blend_plain(columns, from, to, x, std::min(x + 16, columns.width));
      continue;
    }
    const __m512 low = _mm512_loadu_ps(from + base);
    const __m512 high = _mm512_loadu_ps(from + base + 16);
    __m512i index = _mm512_sub_epi32(_mm512_loadu_si512(columns.first.data() + x),
                                     _mm512_set1_epi32(base));
    const float* weights = columns.weights.data() + x;
    __m512 sum = _mm512_setzero_ps();
    for (int32_t k = 0; k < columns.taps; ++k, weights += columns.padded) {
      const __m512 numbers = _mm512_permutex2var_ps(low, index, high);
      sum = _mm512_add_ps(sum, _mm512_mul_ps(numbers, _mm512_loadu_ps(weights)));
      index = _mm512_add_epi32(index, _mm512_set1_epi32(1));
    }
    _mm512_storeu_ps(to + x, sum);
  }
}

__attribute__((target("avx2"))) inline __m256 pick_avx2(const float* from,
                                                        __m256i index) {
  __m256 picked = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), index);
  for (int part = 1; part < 4; ++part) {
    from += 8;
    const __m256 other = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), index);
    const __m256i there =
        _mm256_cmpeq_epi32(_mm256_srli_epi32(index, 3), _mm256_set1_epi32(part));
    picked = _mm256_blendv_ps(picked, other, _mm256_castsi256_ps(there));
  }
  return picked;
}
__attribute__((target("avx2"))) inline void blend_avx2(const Columns& columns,
                                                       const float* from, float* to) {
  for (int32_t x = 0; x < columns.padded; x += 8) {
    const int32_t base = columns.base[static_cast<std::size_t>(x / 16)];
    if (base < 0) {
      blend_plain(columns, from, to, x, std::min(x + 8, columns.width));
      continue;
    }
    const auto* first = reinterpret_cast<const __m256i*>(columns.first.data() + x);
    __m256i index =
        _mm256_sub_epi32(_mm256_loadu_si256(first), _mm256_set1_epi32(base));
    const float* weights = columns.weights.data() + x;
    __m256 sum = _mm256_setzero_ps();
    for (int32_t k = 0; k < columns.taps; ++k, weights += columns.padded) {
      const __m256 numbers = pick_avx2(from + base, index);
      sum = _mm256_add_ps(sum, _mm256_mul_ps(numbers, _mm256_loadu_ps(weights)));
      index = _mm256_add_epi32(index, _mm256_set1_epi32(1));
    }
    _mm256_storeu_ps(to + x, sum);
  }
}
#endif

}  // namespace detail

/// `to` has room for `columns.padded` numbers, `from` kSlack more than are used.
inline void blend_columns(const Columns& columns, const float* from, float* to,
                          CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return detail::blend_avx512(columns, from, to);
  if (level == CpuLevel::kAvx2) return detail::blend_avx2(columns, from, to);
#else
  (void)level;
#endif
  detail::blend_plain(columns, from, to, 0, columns.width);
}

}  // namespace echobuf::transform
