#pragma once

// Runs of a permutation, vectorised. Host only; a kernel calls operator() per thread.

#include <algorithm>

#include "echobuf/cpu.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_x86.hpp"

namespace echobuf {

namespace detail {

inline constexpr uint32_t kBaselineBlock = 32;

/// A block of indices side by side: each is one long chain of multiplications, of which
/// the processor then overlaps several, or the compiler makes vectors.
inline void permute_block_baseline(const Permutation& permutation, uint32_t first,
                                   uint32_t* out) {
  const feistel::Domain domain = permutation.domain();
  uint32_t left[kBaselineBlock], right[kBaselineBlock];
  for (uint32_t i = 0; i < kBaselineBlock; ++i) {
    const uint32_t t = std::min(first + i, domain.size - 1);
    right[i] = feistel::high_product(t, domain.reciprocal) >> domain.shift;
    left[i] = t - right[i] * domain.left;
  }
  for (int r = 0; r < permutation.rounds(); r += 2) {
    const uint32_t key0 = permutation.round_key(r);
    const uint32_t key1 = permutation.round_key(r + 1);
    for (uint32_t i = 0; i < kBaselineBlock; ++i) {
      const uint32_t step = feistel::draw(right[i], key0, domain.left);
      left[i] = feistel::add_modulo(left[i], step, domain.left);
    }
    for (uint32_t i = 0; i < kBaselineBlock; ++i) {
      const uint32_t step = feistel::draw(left[i], key1, domain.right);
      right[i] = feistel::add_modulo(right[i], step, domain.right);
    }
  }
  for (uint32_t i = 0; i < kBaselineBlock; ++i) {
    const uint32_t x = left[i] + right[i] * domain.left;
    // Cycle walking starts over from x: rare, and x may be past 2^31 here.
    out[i] = x < domain.size ? x : permutation.walk(left[i], right[i]);
  }
}

/// Calls `block`, which always writes kBlock indices, and cuts the last one to length.
template <uint32_t kBlock, class Block>
inline void permute_blocks(uint32_t first, uint32_t count, uint32_t* out, Block block) {
  uint32_t done = 0;
  for (; count - done >= kBlock; done += kBlock) block(first + done, out + done);
  if (done == count) return;
  uint32_t rest[kBlock];
  block(first + done, rest);
  std::copy_n(rest, count - done, out + done);
}

}  // namespace detail

/// As permute_range below, at a level that cpu_level() allows.
inline void permute_range(const Permutation& permutation, uint32_t first,
                          uint32_t count, uint32_t* out, CpuLevel level) {
  switch (level) {
#if defined(ECHOBUF_PERMUTATION_X86)
    case CpuLevel::kAvx512:
      return detail::permute_blocks<detail::Avx512Lanes::kBlock>(
          first, count, out, [&](uint32_t begin, uint32_t* to) {
            detail::permute_block_avx512(permutation, begin, to);
          });
    case CpuLevel::kAvx2:
      return detail::permute_blocks<detail::Avx2Lanes::kBlock>(
          first, count, out, [&](uint32_t begin, uint32_t* to) {
            detail::permute_block_avx2(permutation, begin, to);
          });
#endif
    default:
      return detail::permute_blocks<detail::kBaselineBlock>(
          first, count, out, [&](uint32_t begin, uint32_t* to) {
            detail::permute_block_baseline(permutation, begin, to);
          });
  }
}

/// Writes permutation(first), ..., permutation(first + count - 1) to `out`.
///
/// first + count <= permutation.size(). Bit-identical to operator() at every level.
inline void permute_range(const Permutation& permutation, uint32_t first,
                          uint32_t count, uint32_t* out) {
  permute_range(permutation, first, count, out, cpu_level());
}

}  // namespace echobuf
