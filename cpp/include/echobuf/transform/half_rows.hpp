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
inline constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

#define ECHOBUF_TARGET_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ECHOBUF_TARGET_F16C __attribute__((target("avx2,f16c")))

inline constexpr unsigned kAllLanes = 0xFFFF;

ECHOBUF_TARGET_AVX512 inline __m256i half_of_avx512(__m512 value) {
  const __m512i word = _mm512_castps_si512(value);
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
  const __m512i nan =
      _mm512_or_si512(_mm512_and_si512(word, sign), _mm512_set1_epi32(0x7FC00000));
  const __mmask16 nans = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  const __m512 number = _mm512_castsi512_ps(_mm512_mask_mov_epi32(word, nans, nan));
  return _mm512_maskz_cvtps_ph(kAllLanes, number, kToNearest);
}
ECHOBUF_TARGET_AVX512 inline void write_halves_avx512(const float* from,
                                                      std::ptrdiff_t count,
                                                      std::byte* to) {
  std::ptrdiff_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * 2),
                        half_of_avx512(_mm512_loadu_ps(from + i)));
  if (i == count) return;
  const auto lanes = static_cast<__mmask16>((1u << (count - i)) - 1);
  _mm256_mask_storeu_epi16(to + i * 2, lanes,
                           half_of_avx512(_mm512_maskz_loadu_ps(lanes, from + i)));
}
ECHOBUF_TARGET_AVX512 inline void round_halves_avx512(float* row,
                                                      std::ptrdiff_t count) {
  std::ptrdiff_t i = 0;
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(row + i, _mm512_maskz_cvtph_ps(
                                  kAllLanes, half_of_avx512(_mm512_loadu_ps(row + i))));
  for (; i < count; ++i) row[i] = float_of_half(half_of(row[i]));
}
ECHOBUF_TARGET_AVX512 inline void read_halves_avx512(const std::byte* from,
                                                     std::ptrdiff_t count, float* to) {
  std::ptrdiff_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512 value = _mm512_maskz_cvtph_ps(
        kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * 2)));
    if (_mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q) != 0)
      read_halves_plain(from, i, i + 16, to);
    else
      _mm512_storeu_ps(to + i, value);
  }
  read_halves_plain(from, i, count, to);
}

ECHOBUF_TARGET_F16C inline __m128i half_of_avx2(__m256 value) {
  const __m256 sign =
      _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0x80000000u)));
  const __m256 one = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
  const __m256 nan = _mm256_or_ps(_mm256_and_ps(value, sign), one);
  const __m256 nans = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_cvtps_ph(_mm256_blendv_ps(value, nan, nans), kToNearest);
}
ECHOBUF_TARGET_F16C inline void write_halves_avx2(const float* from,
                                                  std::ptrdiff_t count, std::byte* to) {
  std::ptrdiff_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * 2),
                     half_of_avx2(_mm256_loadu_ps(from + i)));
  write_halves_plain(from, i, count, to);
}
ECHOBUF_TARGET_F16C inline void round_halves_avx2(float* row, std::ptrdiff_t count) {
  std::ptrdiff_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(row + i, _mm256_cvtph_ps(half_of_avx2(_mm256_loadu_ps(row + i))));
  for (; i < count; ++i) row[i] = float_of_half(half_of(row[i]));
}
ECHOBUF_TARGET_F16C inline void read_halves_avx2(const std::byte* from,
                                                 std::ptrdiff_t count, float* to) {
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

#undef ECHOBUF_TARGET_AVX512
#undef ECHOBUF_TARGET_F16C
#endif

}  // namespace detail

/// Writes `count` floats as 16-bit ones, at any alignment.
inline void write_halves(const float* from, std::ptrdiff_t count, std::byte* to,
                         CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return detail::write_halves_avx512(from, count, to);
  if (level == CpuLevel::kAvx2 && detect_cpu().f16c)
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
  if (level == CpuLevel::kAvx2 && detect_cpu().f16c)
    return detail::read_halves_avx2(from, count, to);
#else
  (void)level;
#endif
  detail::read_halves_plain(from, 0, count, to);
}

/// Rounds `count` floats to those that 16-bit ones have, in place.
inline void round_halves(float* row, std::ptrdiff_t count,
                         CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return detail::round_halves_avx512(row, count);
  if (level == CpuLevel::kAvx2 && detect_cpu().f16c)
    return detail::round_halves_avx2(row, count);
#else
  (void)level;
#endif
  for (std::ptrdiff_t i = 0; i < count; ++i) row[i] = float_of_half(half_of(row[i]));
}

}  // namespace echobuf::transform
