// Rows of 16-bit floats to floats and back, by the processor's conversions where it has
// them: the same bits as `number.hpp`, which keeps one NaN of a sign, and processors
// keep payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/number.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace echobuf::transform {

namespace detail {

inline void write_halves_plain(const float* __restrict__ from, std::ptrdiff_t begin,
                               std::ptrdiff_t end, std::byte* __restrict__ to) {
  for (std::ptrdiff_t i = begin; i < end; ++i) {
    const std::uint16_t half = half_of(from[i]);
    std::memcpy(to + i * 2, &half, 2);
  }
}
inline void read_halves_plain(const std::byte* __restrict__ from, std::ptrdiff_t begin,
                              std::ptrdiff_t end, float* __restrict__ to) {
  for (std::ptrdiff_t i = begin; i < end; ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + i * 2, 2);
    to[i] = float_of_half(half);
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
/// True if the processor converts halves by itself: all that have AVX2 do, but for
/// some emulators.
inline bool converts_halves() {
  static const bool converts = [] {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return converts;
}

inline constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline void
write_halves_avx512(const float* from, std::ptrdiff_t count, std::byte* to) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  const __m512i nan = _mm512_set1_epi32(0x7FC00000);
  for (std::ptrdiff_t i = 0; i < count; i += 16) {
    const auto left = count - i;
    const auto lanes = static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xFFFFu);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, from + i);
    const __mmask16 nans = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i word = _mm512_castps_si512(value);
    const __m512i one = _mm512_or_si512(_mm512_and_si512(word, sign), nan);
    const __m512 number = _mm512_castsi512_ps(_mm512_mask_mov_epi32(word, nans, one));
    _mm256_mask_storeu_epi16(to + i * 2, lanes, _mm512_maskz_cvtps_ph(lanes, number, kToNearest));
  }
}
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline void
read_halves_avx512(const std::byte* from, std::ptrdiff_t count, float* to) {
  for (std::ptrdiff_t i = 0; i < count; i += 16) {
    const auto left = count - i;
    const auto lanes = static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xFFFFu);
    const __m512 value = _mm512_maskz_cvtph_ps(
        lanes, _mm256_maskz_loadu_epi16(lanes, from + i * 2));
    if (_mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q) != 0)
      read_halves_plain(from, i, left < 16 ? count : i + 16, to);
    else
      _mm512_mask_storeu_ps(to + i, lanes, value);
  }
}

__attribute__((target("avx2,f16c"))) inline void write_halves_avx2(const float* from,
                                                                   std::ptrdiff_t count,
                                                                   std::byte* to) {
  const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi32(
      static_cast<int>(0x80000000u)));
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
  std::ptrdiff_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    const __m256 nans = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256 one = _mm256_or_ps(_mm256_and_ps(value, sign), nan);
    const __m256 number = _mm256_blendv_ps(value, one, nans);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * 2),
                     _mm256_cvtps_ph(number, kToNearest));
  }
  write_halves_plain(from, i, count, to);
}
__attribute__((target("avx2,f16c"))) inline void read_halves_avx2(const std::byte* from,
                                                                  std::ptrdiff_t count,
                                                                  float* to) {
  std::ptrdiff_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * 2)));
    if (_mm256_movemask_ps(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)) != 0)
      read_halves_plain(from, i, i + 8, to);
    else
      _mm256_storeu_ps(to + i, value);
  }
  read_halves_plain(from, i, count, to);
}
#endif

}  // namespace detail

/// Writes `count` floats as 16-bit ones, at any alignment.
inline void write_halves(const float* from, std::ptrdiff_t count, std::byte* to,
                         CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return detail::write_halves_avx512(from, count, to);
  if (level == CpuLevel::kAvx2 && detail::converts_halves())
    return detail::write_halves_avx2(from, count, to);
#else
  (void)level;
#endif
  detail::write_halves_plain(from, 0, count, to);
}

/// Reads `count` of them, at any alignment.
inline void read_halves(const std::byte* from, std::ptrdiff_t count, float* to,
                        CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return detail::read_halves_avx512(from, count, to);
  if (level == CpuLevel::kAvx2 && detail::converts_halves())
    return detail::read_halves_avx2(from, count, to);
#else
  (void)level;
#endif
  detail::read_halves_plain(from, 0, count, to);
}

}  // namespace echobuf::transform
