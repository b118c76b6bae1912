// Copying the rows of large records one after the other, in any order: each copy asks
// for what is read after it.
#pragma once

#include <cstddef>
#include <cstring>

#include "echobuf/cpu.hpp"
#include "echobuf/store/copy.hpp"

namespace echobuf {

/// The bytes that are read after a row: the rest of its record, then the next one. The
/// hardware follows a stream no further than a page, and finds a record anew; a copy
/// that asks for bytes at a distance as it goes never waits for either.
struct Lookahead {
  const std::byte* end;   // of the record that the row lies in
  const std::byte* next;  // the record that is read after it
  std::size_t distance;   // at most the bytes of a record

  const std::byte* after(const std::byte* address) const {
    const auto left = static_cast<std::size_t>(end - address);
    return distance < left ? address + distance : next + (distance - left);
  }
};

using RowCopyAhead = void (*)(std::byte* to, const std::byte* from, std::size_t bytes,
                              const Lookahead& ahead);

/// Records from here on are copied with a Lookahead, of at most so many bytes; those of
/// more than the other bound are streams that the hardware follows better by itself.
inline constexpr std::size_t kLookaheadFrom = 2048;
inline constexpr std::size_t kLookaheadTo = std::size_t{64} << 10;
inline constexpr std::size_t kLookahead = 4096;
inline constexpr std::size_t kStreamingLookahead = 8192;

namespace detail {

/// Into the first-level cache: the copy is there soon.
inline void prefetch_two_lines(const std::byte* address) {
#ifdef __GNUC__
  __builtin_prefetch(address, 0, 3);
  __builtin_prefetch(address + 64, 0, 3);
#else
  (void)address;
#endif
}

inline void copy_ahead(std::byte* to, const std::byte* from, std::size_t bytes,
                       const Lookahead& ahead) {
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    prefetch_two_lines(ahead.after(from + i));
    std::memcpy(to + i, from + i, 128);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace detail

#ifdef ECHOBUF_X86

namespace detail {

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

/// `kStream`: past the caches.
template <bool kStream>
__attribute__((target("avx2"))) inline void copy_ahead_avx2(std::byte* to,
                                                            const std::byte* from,
                                                            std::size_t bytes,
                                                            const Lookahead& ahead) {
  std::size_t i = kStream ? copy_head(to, from, bytes) : 0;
  for (; i + 128 <= bytes; i += 128) {
    prefetch_two_lines(ahead.after(from + i));
    copy_two_lines_avx2<kStream>(to + i, from + i);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace detail

/// The copy of a row that is in no cache, through them.
inline RowCopyAhead cold_copy_ahead(CpuLevel level = cpu_level()) {
  return level >= CpuLevel::kAvx2 ? detail::copy_ahead_avx2<false> : detail::copy_ahead;
}

/// The copy that writes past the caches; finish_streaming() must follow.
inline RowCopyAhead streaming_copy_ahead(CpuLevel level = cpu_level()) {
  if (level >= CpuLevel::kAvx2) return detail::copy_ahead_avx2<true>;
  return [](std::byte* to, const std::byte* from, std::size_t bytes, const Lookahead&) {
    detail::stream_sse2(to, from, bytes);
  };
}

#else

inline RowCopyAhead cold_copy_ahead(CpuLevel = cpu_level()) {
  return detail::copy_ahead;
}
inline RowCopyAhead streaming_copy_ahead(CpuLevel = cpu_level()) {
  return detail::copy_ahead;
}

#endif

}  // namespace echobuf
