// Copying one row, or one field of a record: through the caches where it is small, past
// them where a batch is larger than they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "echobuf/cpu.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define ECHOBUF_X86 1
#include <immintrin.h>
#endif

namespace echobuf {

using RowCopy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

/// Batches from here on are written with non-temporal stores: they would only push the
/// window and the model out of the caches, and cost a read of every line written.
inline constexpr std::size_t kStreamFrom = std::size_t{4} << 20;
/// Windows from here on, too: a record has left the caches before it is drawn.
inline constexpr std::size_t kStreamInto = std::size_t{32} << 20;
/// Puts of less are not: the fence that ends such stores costs more than they save.
inline constexpr std::size_t kStreamPut = std::size_t{4} << 10;
/// Rows shorter than this have too many unaligned ends for it to pay; but not fields of
/// records that are whole cache lines: see RecordLayout::fills_lines().
inline constexpr std::size_t kStreamRow = 1024;

inline void copy_row(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

namespace detail {

/// Copies `bytes`, a multiple of 16 and small, in words that need no loop per byte.
inline void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
}

inline void copy_field(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 0:
      return;
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      if (bytes % 16 == 0 && bytes <= 256)
        copy_words(to, from, bytes);
      else
        std::memcpy(to, from, bytes);
  }
}

}  // namespace detail

#ifdef ECHOBUF_X86

namespace detail {

/// Copies up to the next line of the target, and says how many bytes that were.
inline std::size_t copy_head(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t head = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
  if (head > bytes) head = bytes;
  if (head > 0) std::memcpy(to, from, head);
  return head;
}

__attribute__((target("avx512f"))) inline void stream_avx512(std::byte* to,
                                                             const std::byte* from,
                                                             std::size_t bytes) {
  std::size_t i = copy_head(to, from, bytes);
  for (; i + 128 <= bytes; i += 128) {
    const __m512i a = _mm512_loadu_si512(from + i);
    const __m512i b = _mm512_loadu_si512(from + i + 64);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64), b);
  }
  if (i + 64 <= bytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i),
                        _mm512_loadu_si512(from + i));
    i += 64;
  }
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

__attribute__((target("avx2"))) inline void stream_avx2(std::byte* to,
                                                        const std::byte* from,
                                                        std::size_t bytes) {
  std::size_t i = copy_head(to, from, bytes);
  for (; i + 64 <= bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(source);
    const __m256i b = _mm256_loadu_si256(source + 1);
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
  }
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

/// Copies 128 bytes. `kStream`: past the caches.
template <bool kStream>
__attribute__((target("avx2"))) inline void copy_two_lines_avx2(std::byte* to,
                                                                const std::byte* from) {
  const auto* source = reinterpret_cast<const __m256i*>(from);
  auto* target = reinterpret_cast<__m256i*>(to);
  const __m256i a = _mm256_loadu_si256(source);
  const __m256i b = _mm256_loadu_si256(source + 1);
  const __m256i c = _mm256_loadu_si256(source + 2);
  const __m256i d = _mm256_loadu_si256(source + 3);
  if constexpr (kStream) {
    _mm256_stream_si256(target, a);
    _mm256_stream_si256(target + 1, b);
    _mm256_stream_si256(target + 2, c);
    _mm256_stream_si256(target + 3, d);
  } else {
    _mm256_storeu_si256(target, a);
    _mm256_storeu_si256(target + 1, b);
    _mm256_storeu_si256(target + 2, c);
    _mm256_storeu_si256(target + 3, d);
  }
}

__attribute__((target("avx2"))) inline void copy_avx2(std::byte* to,
                                                      const std::byte* from,
                                                      std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) copy_two_lines_avx2<false>(to + i, from + i);
  std::memcpy(to + i, from + i, bytes - i);
}

inline void stream_sse2(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t i = copy_head(to, from, bytes);
  for (; i + 64 <= bytes; i += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    for (int k = 0; k < 4; ++k)
      _mm_stream_si128(target + k, _mm_loadu_si128(source + k));
  }
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace detail

/// The copy of a row that is in no cache, through them; `memcpy` waits more often for
/// the first lines of each.
inline RowCopy cold_copy(CpuLevel level = cpu_level()) {
  return level >= CpuLevel::kAvx2 ? detail::copy_avx2 : copy_row;
}

/// The copy that writes past the caches; finish_streaming() must follow.
inline RowCopy streaming_copy(CpuLevel level = cpu_level()) {
  switch (level) {
    case CpuLevel::kAvx512:
      return detail::stream_avx512;
    case CpuLevel::kAvx2:
      return detail::stream_avx2;
    default:
      return detail::stream_sse2;
  }
}

/// Non-temporal stores are not ordered by release stores: this orders them.
inline void finish_streaming() { _mm_sfence(); }

#else

inline RowCopy cold_copy(CpuLevel = cpu_level()) { return copy_row; }
inline RowCopy streaming_copy(CpuLevel = cpu_level()) { return copy_row; }
inline void finish_streaming() {}

#endif

/// Into the second-level cache: the few buffers of the first are what limits a gather
/// of small records, and they are free again sooner. `kLocality` 3: into the first.
template <int kLocality = 2>
inline void prefetch_for_read(const std::byte* address) {
#ifdef __GNUC__
  __builtin_prefetch(address, 0, kLocality);
  // GCC leaves out calls of functions that prefetch and do nothing else.
  asm volatile("");
#else
  (void)address;
#endif
}

inline void prefetch_two_lines(const std::byte* address) {
  prefetch_for_read(address);
  prefetch_for_read(address + 64);
}

}  // namespace echobuf
