// Copying the rows of large records, several at a time. The hardware follows each row
// as a stream of its own: so more reads are on their way than those of one row, at
// whose pages, and at whose end, it begins anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "echobuf/cpu.hpp"
#include "echobuf/store/copy.hpp"

namespace echobuf {

/// Rows that lie anywhere, and the consecutive rows that they are copied to.
struct RowsSideBySide {
  static constexpr std::size_t kMost = 8;

  std::byte* to;
  std::size_t bytes;  // of each
  std::size_t count;  // kMost at most
  const std::byte* from[kMost];
  const std::byte* next[kMost];  // what is read after each
};

using CopySideBySide = void (*)(const RowsSideBySide& rows);

/// Records from here on are copied so; shorter ones are asked for whole instead.
inline constexpr std::size_t kSideBySideFrom = 1024 + 1;

namespace detail {

/// The bytes ahead of what is copied that are asked for.
inline constexpr std::size_t kAhead = 1024;
inline constexpr std::size_t kPage = 4096;

/// The hardware follows long rows by itself, once their first lines have been asked
/// for; but not so well where all rows are at one place of their pages.
inline bool is_followed(std::size_t bytes) {
  return bytes >= (std::size_t{32} << 10) && bytes % kPage != 0;
}

/// `kStream`: targets begin with a whole line. `kCount`: of the rows, or 0 for any.
/// `copy_lines(to, from)`: copies 128 bytes.
template <bool kStream, std::size_t kCount, class CopyLines>
#ifdef __GNUC__
__attribute__((always_inline))
#endif
inline void
copy_lines_of(const RowsSideBySide& rows, CopyLines copy_lines) {
  const std::size_t count = kCount == 0 ? rows.count : kCount;
  const std::size_t bytes = rows.bytes;
  const bool asks = !is_followed(bytes);
  std::size_t begin[RowsSideBySide::kMost] = {};
  std::size_t latest = 0;
  if constexpr (kStream)
    for (std::size_t k = 0; k < count; ++k) {
      begin[k] = copy_head(rows.to + k * bytes, rows.from[k], bytes);
      latest = std::max(latest, begin[k]);
    }
  std::size_t done = 0;
  for (; latest + done + 128 <= bytes; done += 128)
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t at = begin[k] + done;
      const std::size_t ahead = at + kAhead;
      const std::byte* const asked =
          ahead < bytes ? rows.from[k] + ahead : rows.next[k] + (ahead - bytes);
      if (asks || ahead >= bytes) prefetch_two_lines(asked);
      copy_lines(rows.to + k * bytes + at, rows.from[k] + at);
    }
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t at = begin[k] + done;
    std::memcpy(rows.to + k * bytes + at, rows.from[k] + at, bytes - at);
  }
}

/// The same of rows that are whole pages, through the caches, where sources are all at
/// one place of their pages, too: so many lines at one place push each other out of the
/// first cache. So each row is begun a little further on than the one before it, and
/// what lies before that is copied last.
template <std::size_t kCount, class CopyLines>
#ifdef __GNUC__
__attribute__((always_inline))
#endif
inline void
copy_pages_of(const RowsSideBySide& rows, CopyLines copy_lines) {
  const std::size_t count = kCount == 0 ? rows.count : kCount;
  const std::size_t bytes = rows.bytes;
  std::size_t at[RowsSideBySide::kMost];
  for (std::size_t k = 0; k < count; ++k) at[k] = k * 128;
  for (std::size_t done = 0; done < bytes; done += 128)
    for (std::size_t k = 0; k < count; ++k) {
      const std::byte* const asked =
          done + kAhead < bytes ? rows.from[k] : rows.next[k];
      const std::size_t ahead = at[k] + kAhead;
      prefetch_two_lines(asked + (ahead < bytes ? ahead : ahead - bytes));
      copy_lines(rows.to + k * bytes + at[k], rows.from[k] + at[k]);
      at[k] = at[k] + 128 < bytes ? at[k] + 128 : 0;
    }
}

/// Most groups have as many rows as can be, which the compiler knows here.
template <bool kStream, class CopyLines>
#ifdef __GNUC__
__attribute__((always_inline))
#endif
inline void
copy_rows_of(const RowsSideBySide& rows, CopyLines copy_lines) {
  constexpr std::size_t kMost = RowsSideBySide::kMost;
  const bool are_pages =
      !kStream && rows.bytes % kPage == 0 && rows.count > 1 &&
      static_cast<std::size_t>(rows.from[1] - rows.from[0]) % kPage == 0;
  if (rows.count == kMost)
    are_pages ? copy_pages_of<kMost>(rows, copy_lines)
              : copy_lines_of<kStream, kMost>(rows, copy_lines);
  else
    are_pages ? copy_pages_of<0>(rows, copy_lines)
              : copy_lines_of<kStream, 0>(rows, copy_lines);
}

inline void copy_side_by_side(const RowsSideBySide& rows) {
  copy_rows_of<false>(
      rows, [](std::byte* to, const std::byte* from) { std::memcpy(to, from, 128); });
}

/// Row by row, past the caches.
inline void stream_rows(const RowsSideBySide& rows) {
  const RowCopy copy = streaming_copy();
  for (std::size_t k = 0; k < rows.count; ++k)
    copy(rows.to + k * rows.bytes, rows.from[k], rows.bytes);
}

#ifdef ECHOBUF_X86

/// `kStream`: past the caches.
template <bool kStream>
__attribute__((target("avx2"))) inline void copy_side_by_side_avx2(
    const RowsSideBySide& rows) {
  copy_rows_of<kStream>(rows, copy_two_lines_avx2<kStream>);
}

#endif

}  // namespace detail

/// The copy of rows that are in no cache. `stream`: it writes past the caches, and
/// finish_streaming() must follow.
inline CopySideBySide side_by_side(bool stream, CpuLevel level = cpu_level()) {
#ifdef ECHOBUF_X86
  if (level >= CpuLevel::kAvx2)
    return stream ? detail::copy_side_by_side_avx2<true>
                  : detail::copy_side_by_side_avx2<false>;
#else
  static_cast<void>(level);
#endif
  return stream ? detail::stream_rows : detail::copy_side_by_side;
}

}  // namespace echobuf
