// Pixels of bytes taken apart: each channel in a separate row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/cpu.hpp"
#include "echobuf/platform.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace echobuf::transform {

namespace detail {

/// Channel `c` of pixels of three bytes, as the shuffle that picks it out of the word
/// `word` of three words of sixteen bytes.
struct Picks {
  alignas(16) unsigned char at[3][3][16];  // channel, word
};
constexpr Picks make_picks() {
  Picks picks{};
  for (int c = 0; c < 3; ++c)
    for (int word = 0; word < 3; ++word)
      for (int i = 0; i < 16; ++i) {
        const int byte = 3 * i + c - 16 * word;
        picks.at[c][word][i] =
            static_cast<unsigned char>(byte >= 0 && byte < 16 ? byte : 0x80);
      }
  return picks;
}
inline constexpr Picks kPicks = make_picks();

inline void split3_plain(const unsigned char* from, int32_t count,
                         unsigned char* const* planes, int32_t done = 0) {
  for (int32_t i = done; i < count; ++i)
    for (int c = 0; c < 3; ++c) planes[c][i] = from[3 * i + c];
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) inline void split3_avx2(const unsigned char* from,
                                                        int32_t count,
                                                        unsigned char* const* planes) {
  int32_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const auto* words = reinterpret_cast<const __m128i*>(from) + 3 * (i / 16);
    const __m128i x = _mm_loadu_si128(words);
    const __m128i y = _mm_loadu_si128(words + 1);
    const __m128i z = _mm_loadu_si128(words + 2);
    for (int c = 0; c < 3; ++c) {
      const auto* picks = reinterpret_cast<const __m128i*>(kPicks.at[c]);
      const __m128i all =
          _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(x, _mm_load_si128(picks)),
                                    _mm_shuffle_epi8(y, _mm_load_si128(picks + 1))),
                       _mm_shuffle_epi8(z, _mm_load_si128(picks + 2)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[c] + i), all);
    }
  }
  split3_plain(from, count, planes, i);
}
__attribute__((target("avx2"))) inline void reverse_avx2(const unsigned char* from,
                                                         int32_t count,
                                                         unsigned char* to) {
  const __m128i order =
      _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  int32_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i word =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + count - 16 - i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_shuffle_epi8(word, order));
  }
  for (; i < count; ++i) to[i] = from[count - 1 - i];
}
#endif

}  // namespace detail

/// Takes `count` pixels of three bytes apart.
inline void split3(const unsigned char* from, int32_t count,
                   unsigned char* const* planes, CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level >= CpuLevel::kAvx2) return detail::split3_avx2(from, count, planes);
#else
  (void)level;
#endif
  detail::split3_plain(from, count, planes);
}

/// The bytes in the other order.
inline void reverse_bytes(const unsigned char* from, int32_t count, unsigned char* to,
                          CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level >= CpuLevel::kAvx2) return detail::reverse_avx2(from, count, to);
#else
  (void)level;
#endif
  for (int32_t i = 0; i < count; ++i) to[i] = from[count - 1 - i];
}

}  // namespace echobuf::transform
