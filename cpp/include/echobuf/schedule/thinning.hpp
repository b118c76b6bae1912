// By chance, but always alike: which records a pass that thins leaves out.
#pragma once

#include <cstdint>

#include "echobuf/schedule/random.hpp"

namespace echobuf {

/// Philox's fourth counter word, for thinning; see kPermutationTag.
inline constexpr std::uint32_t kThinningTag = 0xD0;

/// Coins of the records of a pass.
///
/// Specification (tests/selection_reference.py is written from it): let K be words 0 and
/// 1 of Philox4x32-10 of the counter (epoch mod 2^32, epoch / 2^32, pass mod 2^32,
/// pass / 2^32 + 0xD0 * 2^24) under the key `seed`, word 0 the low half; and
/// x = mix(K + (record + 1) * 0x9E3779B97F4A7C15), with mix the finaliser of SplitMix64
/// and all modulo 2^64. The record is left out if floor(x / 2^32) < round(thin * 2^32).
///
/// Source of mix: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA'14, with the constants of S. Vigna's SplitMix64.
class Thinning {
 public:
  /// `thin`: the probability, below 1.
  Thinning(std::uint64_t seed, std::uint64_t epoch, std::uint64_t pass, double thin)
      : limit_(static_cast<std::uint64_t>(thin * 4294967296.0 + 0.5)) {
    const Philox4x32Block counter{
        {static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
         static_cast<std::uint32_t>(pass),
         static_cast<std::uint32_t>(pass >> 32) + (kThinningTag << 24)}};
    const Philox4x32Block block = philox4x32(counter, philox_key(seed));
    key_ = std::uint64_t{block.word[1]} << 32 | block.word[0];
  }

  bool leaves_out(std::uint64_t record) const {
    std::uint64_t x = key_ + (record + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return (x >> 32) < limit_;
  }

 private:
  std::uint64_t key_;
  const std::uint64_t limit_;
};

}  // namespace echobuf
