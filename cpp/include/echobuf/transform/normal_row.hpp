// Normal numbers for a row of elements, as the host makes them: the words of all
// elements at once, then the quantiles near the middle of all of them, then those of
// the tails, put together, which are some 15 in 100.
#pragma once

#include <algorithm>
#include <cstdint>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/rows.hpp"
#include "echobuf/transform/words.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace echobuf::transform {

namespace detail {

/// Elements that are worked on at once: a multiple of what the widest vectors hold.
inline constexpr int32_t kNormals = 256;

/// The first word of each of `count` elements, which are `step` apart.
inline void element_words_plain(const Words& words, uint32_t first, uint32_t step,
                                int32_t count, uint32_t* to) {
  for (int32_t i = 0; i < count; ++i)
    to[i] = words.element(first + static_cast<uint32_t>(i) * step).word[0];
}

#if defined(__x86_64__) && defined(__GNUC__)
// `philox4x32` in lanes of 64 bits, of which the lower 32 count: the products are
// whole, and what is left above of a shift or of a sum is never read. `to` has room for
// kNormals.

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline void
element_words_avx512(const Words& words, uint32_t first, uint32_t step, int32_t count,
                     uint32_t* to) {
  // With all lanes chosen by name: GCC 12 warns of what the others leave undefined.
  constexpr __mmask8 kAll = 0xFF;
  const Philox4x32Block counter = words.counter(words.element_block(first));
  const __m512i multiplier0 = _mm512_set1_epi64(kPhiloxMultiplier0);
  const __m512i multiplier1 = _mm512_set1_epi64(kPhiloxMultiplier1);
  const __m512i steps = _mm512_set1_epi64(int64_t{step});
  __m512i index = _mm512_add_epi64(
      _mm512_set1_epi64(counter.word[3]),
      _mm512_maskz_mul_epu32(kAll, _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), steps));
  for (int32_t i = 0; i < count; i += 8) {
    __m512i c0 = _mm512_set1_epi64(counter.word[0]);
    __m512i c1 = _mm512_set1_epi64(counter.word[1]);
    __m512i c2 = _mm512_set1_epi64(counter.word[2]);
    __m512i c3 = index;
    uint32_t k0 = words.key().word[0];
    uint32_t k1 = words.key().word[1];
#pragma GCC unroll 10
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const __m512i product0 = _mm512_maskz_mul_epu32(kAll, c0, multiplier0);
      const __m512i product1 = _mm512_maskz_mul_epu32(kAll, c2, multiplier1);
      c0 = _mm512_xor_si512(
          _mm512_xor_si512(_mm512_maskz_srli_epi64(kAll, product1, 32), c1),
          _mm512_set1_epi64(k0));
      c1 = product1;
      c2 = _mm512_xor_si512(
          _mm512_xor_si512(_mm512_maskz_srli_epi64(kAll, product0, 32), c3),
          _mm512_set1_epi64(k1));
      c3 = product0;
      k0 += kPhiloxWeyl0;
      k1 += kPhiloxWeyl1;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtepi64_epi32(kAll, c0));
    index = _mm512_add_epi64(index, _mm512_maskz_slli_epi64(kAll, steps, 3));
  }
}

__attribute__((target("avx2"))) inline void element_words_avx2(
    const Words& words, uint32_t first, uint32_t step, int32_t count, uint32_t* to) {
  const Philox4x32Block counter = words.counter(words.element_block(first));
  const __m256i multiplier0 = _mm256_set1_epi64x(kPhiloxMultiplier0);
  const __m256i multiplier1 = _mm256_set1_epi64x(kPhiloxMultiplier1);
  const __m256i steps = _mm256_set1_epi64x(int64_t{step});
  const __m256i lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  __m256i index =
      _mm256_add_epi64(_mm256_set1_epi64x(counter.word[3]),
                       _mm256_mul_epu32(_mm256_setr_epi64x(0, 1, 2, 3), steps));
  for (int32_t i = 0; i < count; i += 4) {
    __m256i c0 = _mm256_set1_epi64x(counter.word[0]);
    __m256i c1 = _mm256_set1_epi64x(counter.word[1]);
    __m256i c2 = _mm256_set1_epi64x(counter.word[2]);
    __m256i c3 = index;
    uint32_t k0 = words.key().word[0];
    uint32_t k1 = words.key().word[1];
#pragma GCC unroll 10
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const __m256i product0 = _mm256_mul_epu32(c0, multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2, multiplier1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1),
                            _mm256_set1_epi64x(k0));
      c1 = product1;
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3),
                            _mm256_set1_epi64x(k1));
      c3 = product0;
      k0 += kPhiloxWeyl0;
      k1 += kPhiloxWeyl1;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(c0, lower)));
    index = _mm256_add_epi64(index, _mm256_slli_epi64(steps, 2));
  }
}
#endif

/// Words from here on, and fewer than kCentralWords of them, are central.
inline constexpr uint32_t kFirstCentral = 322122547u;
inline constexpr uint32_t kCentralWords = 0u - 2 * kFirstCentral;
static_assert(is_central(kFirstCentral) && !is_central(kFirstCentral - 1));
static_assert(is_central(kFirstCentral + (kCentralWords - 1)) &&
              !is_central(kFirstCentral + kCentralWords));

/// Puts the indices of words whose quantiles lie in a tail together; returns how many.
inline int32_t find_tails_plain(const uint32_t* words, int32_t count, int32_t* tails) {
  int32_t found = 0;
  for (int32_t i = 0; i < count; ++i) {
    tails[found] = i;
    found += words[i] - kFirstCentral >= kCentralWords ? 1 : 0;
  }
  return found;
}
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline int32_t
find_tails_avx512(const uint32_t* words, int32_t count, int32_t* tails) {
  const __m512i first = _mm512_set1_epi32(static_cast<int32_t>(kFirstCentral));
  const __m512i central = _mm512_set1_epi32(static_cast<int32_t>(kCentralWords));
  __m512i index =
      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int32_t found = 0;
  for (int32_t i = 0; i < count; i += 16) {
    const __m512i distance = _mm512_sub_epi32(_mm512_loadu_si512(words + i), first);
    const auto valid = static_cast<__mmask16>((1u << std::min(count - i, 16)) - 1u);
    const __mmask16 tail = _mm512_mask_cmpge_epu32_mask(valid, distance, central);
    _mm512_storeu_si512(tails + found, _mm512_maskz_compress_epi32(tail, index));
    found += __builtin_popcount(tail);
    index = _mm512_add_epi32(index, _mm512_set1_epi32(16));
  }
  return found;
}
#endif

}  // namespace detail

/// Makes what `normal` makes of the first words of `count` elements, which are `step`
/// apart, and calls `use(begin, count, quantiles)` for as many as are made at once.
template <class Use>
void for_normals(const Words& words, uint32_t first, uint32_t step, int32_t count,
                 Use&& use, CpuLevel level = cpu_level()) {
  alignas(64) uint32_t word[detail::kNormals];
  alignas(64) float quantile[detail::kNormals];
  alignas(64) int32_t tails[detail::kNormals + 16];
  alignas(64) uint32_t tail_word[detail::kNormals];
  alignas(64) float tail_quantile[detail::kNormals];
  for (int32_t begin = 0; begin < count; begin += detail::kNormals) {
    const int32_t some = std::min(count - begin, detail::kNormals);
    const uint32_t at = first + static_cast<uint32_t>(begin) * step;
    int32_t found = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    if (level == CpuLevel::kAvx512) {
      detail::element_words_avx512(words, at, step, some, word);
      found = detail::find_tails_avx512(word, some, tails);
    } else if (level == CpuLevel::kAvx2) {
      detail::element_words_avx2(words, at, step, some, word);
      found = detail::find_tails_plain(word, some, tails);
    } else
#endif
    {
      detail::element_words_plain(words, at, step, some, word);
      found = detail::find_tails_plain(word, some, tails);
    }
    work_fast(
        [from = word, to = quantile, some] {
          for (int32_t i = 0; i < some; ++i) to[i] = normal_centre(from[i]);
        },
        level);
    for (int32_t i = 0; i < found; ++i) tail_word[i] = word[tails[i]];
    work_fast(
        [from = tail_word, to = tail_quantile, found] {
          for (int32_t i = 0; i < found; ++i) to[i] = normal_tail(from[i]);
        },
        level);
    for (int32_t i = 0; i < found; ++i) quantile[tails[i]] = tail_quantile[i];
    use(begin, some, static_cast<const float*>(quantile));
  }
}

}  // namespace echobuf::transform
