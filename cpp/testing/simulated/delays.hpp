// Delays of a stream before an operation: the same for the same seed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace echobuf::simulated {

/// The finalizer of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA'14).
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

/// Half of the operations start at once: long runs without a pause are as likely to
/// find something as long pauses are.
constexpr std::chrono::microseconds delay(std::uint64_t seed, std::size_t stream,
                                          std::uint64_t operation,
                                          unsigned largest_us) {
  const std::uint64_t bits = mix(mix(mix(seed) ^ stream) ^ operation);
  if (bits & 1) return std::chrono::microseconds(0);
  return std::chrono::microseconds((bits >> 1) % (std::uint64_t{largest_us} + 1));
}

}  // namespace echobuf::simulated
