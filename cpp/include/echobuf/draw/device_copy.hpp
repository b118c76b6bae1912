#pragma once

#include "echobuf/platform.hpp"

// Copying the bytes of a row in 16-byte words, as single threads of a kernel do it: a
// thread has one word of the target, whatever the row's alignment there. Compiled for
// the host too, where the simulated driver runs it.

namespace echobuf {

/// The bytes that a thread loads and stores at once.
struct alignas(16) Word {
  uint64_t low;
  uint64_t high;
};

/// Device memory as kernels reach it. The host build tells the simulated driver.
namespace device {

#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
using Touch = void (*)(const void* address, uint64_t bytes, int write);
/// Set by who runs kernels on the host.
inline thread_local Touch touched = nullptr;
inline void touch(const void* address, uint32_t bytes, bool write) {
  if (touched) touched(address, bytes, write);
}
#endif

template <class T>
ECHOBUF_HD T load(uint64_t address) {
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  return *reinterpret_cast<const T*>(address);
#else
  T value;
  touch(reinterpret_cast<const void*>(address), sizeof(T), false);
  __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
  return value;
#endif
}

/// For bytes that are not read again soon: they leave the caches first.
template <class T>
ECHOBUF_HD T load_once(uint64_t address) {
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  static_assert(sizeof(T) == 16);
  T value;
  asm("ld.global.cs.v2.u64 {%0, %1}, [%2];"
      : "=l"(value.low), "=l"(value.high)
      : "l"(address));
  return value;
#else
  return load<T>(address);
#endif
}

/// The value at an address, in place.
template <class T>
ECHOBUF_HD const T& see(uint64_t address) {
#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
  touch(reinterpret_cast<const void*>(address), sizeof(T), false);
#endif
  return *reinterpret_cast<const T*>(address);
}

template <class T>
ECHOBUF_HD void store(uint64_t address, T value) {
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
  *reinterpret_cast<T*>(address) = value;
#else
  touch(reinterpret_cast<const void*>(address), sizeof(T), true);
  __builtin_memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
#endif
}

}  // namespace device

/// The 16 bytes at `skip` < 16 bytes into two words that follow each other.
ECHOBUF_HD inline Word funnel(const Word& first, const Word& second, uint32_t skip) {
  const uint32_t shift = skip % 8 * 8;
  const uint64_t a = skip < 8 ? first.low : first.high;
  const uint64_t b = skip < 8 ? first.high : second.low;
  const uint64_t c = skip < 8 ? second.low : second.high;
  if (shift == 0) return {a, b};
  return {a >> shift | b << (64 - shift), b >> shift | c << (64 - shift)};
}

/// Returns whether rows are copied as numbers, where `address` is that of row 0.
ECHOBUF_HD constexpr bool is_scalar(uint64_t address, uint64_t bytes) {
  const bool power = bytes != 0 && bytes <= 8 && (bytes & (bytes - 1)) == 0;
  return power && address % bytes == 0;
}

/// Returns whether rows are whole words, where `address` is that of row 0.
ECHOBUF_HD constexpr bool is_whole(uint64_t address, uint64_t bytes) {
  return bytes % 16 == 0 && address % 16 == 0;
}

/// How many threads a row of `bytes` takes, where `address` is that of row 0.
ECHOBUF_HD constexpr uint64_t words_of(uint64_t address, uint64_t bytes) {
  if (is_whole(address, bytes)) return bytes / 16;
  if (is_scalar(address, bytes)) return 1;
  return (bytes + 30) / 16;  // begins and ends anywhere in a word
}

/// Copies a row that is a number. `from` is aligned to 16 bytes, `to` to `bytes`.
ECHOBUF_HD inline void copy_scalar(uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 8) return device::store(to, device::load<uint64_t>(from));
  if (bytes == 4) return device::store(to, device::load<uint32_t>(from));
  if (bytes == 2) return device::store(to, device::load<uint16_t>(from));
  device::store(to, device::load<uint8_t>(from));
}

/// Copies what of a row lies in the target's aligned word number `index`, counted from
/// the one in which the row begins. `from` is aligned to 16 bytes, and its bytes up to
/// the next such address may be read; `to` may lie anywhere.
ECHOBUF_HD inline void copy_word(uint64_t to, uint64_t from, uint64_t bytes,
                                 uint64_t index) {
  const uint64_t lead = to % 16;  // of the first word, before the row
  const uint64_t word = to - lead + index * 16;
  // This word begins at this byte of the row; the first one `lead` bytes before it.
  const uint64_t end = lead + bytes;
  if (index * 16 >= end) return;
  const bool whole = index * 16 >= lead && index * 16 + 16 <= end;
  if (!whole) {
    const uint64_t begin = index * 16 > lead ? index * 16 : lead;
    const uint64_t stop = index * 16 + 16 < end ? index * 16 + 16 : end;
    for (uint64_t at = begin; at < stop; ++at)
      device::store(to - lead + at, device::load<uint8_t>(from + at - lead));
    return;
  }
  const uint64_t start = index * 16 - lead;  // in the row
  const auto skip = static_cast<uint32_t>(start % 16);
  const Word first = device::load<Word>(from + start - skip);
  if (skip == 0) return device::store(word, first);
  // The second word holds bytes of this row, so it may be read.
  const Word second = device::load<Word>(from + start - skip + 16);
  device::store(word, funnel(first, second, skip));
}

}  // namespace echobuf
