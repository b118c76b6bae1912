#pragma once

#include "echobuf/platform.hpp"

namespace echobuf {

/// Four 32-bit words: a counter that goes into Philox, or a block that comes out.
struct Philox4x32Block {
  uint32_t word[4];
};

/// The 64-bit key of Philox4x32 as two words, low word first.
struct Philox4x32Key {
  uint32_t word[2];
};

/// The key that holds all 64 bits of `seed`.
ECHOBUF_HD constexpr Philox4x32Key philox_key(uint64_t seed) {
  return {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
}

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;  // golden ratio
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;  // sqrt(3) - 1

/// Philox4x32 with ten rounds: a counter-based random number generator.
///
/// A keyed bijection of 128-bit counters whose outputs, for counters 0, 1, 2, ...,
/// pass the BigCrush battery. It has no state: any block can be computed at any time,
/// on any device, which is what makes draws reproducible after a resume.
///
/// Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC'11, section 3.3. The tests hold the known answers
/// that are published with it (Random123, kat_vectors).
ECHOBUF_HD constexpr Philox4x32Block philox4x32(const Philox4x32Block& counter,
                                                const Philox4x32Key& key) {
  uint32_t c0 = counter.word[0], c1 = counter.word[1];
  uint32_t c2 = counter.word[2], c3 = counter.word[3];
  uint32_t k0 = key.word[0], k1 = key.word[1];
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * c0;
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(product0);
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace echobuf
