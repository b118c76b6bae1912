// By chance, but always alike: which records a pass that thins leaves out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "echobuf/cpu.hpp"
#include "echobuf/schedule/random.hpp"
#include "echobuf/schedule/selection.hpp"

namespace echobuf {

/// Philox's fourth counter word, for thinning; see kPermutationTag.
inline constexpr std::uint32_t kThinningTag = 0xD0;

/// Coins of the records of a pass.
///
/// Specification (tests/reuse/selection_reference.py is written from it): let K0 and K1
/// be words 0 and 1 of Philox4x32-10 of the counter (epoch mod 2^32, epoch / 2^32, pass
/// mod 2^32, pass / 2^32 + 0xD0 * 2^24) under the key `seed`. For record r, all modulo
/// 2^32:
///
///   x = (r mod 2^32) xor K0;  x = x xor x >> 16;  x = x * 0x7FEB352D;
///   x = x xor x >> 15;        x = x xor (K1 + r / 2^32);
///   x = x * 0x846CA68B;       x = x xor x >> 16;  x = x * 0x7FEB352D;  x = x xor x >>
///   15
///
/// The record is left out if x < round(thin * 2^32).
///
/// The steps are those of C. Wellons, "Prospecting for hash functions" (2018),
/// lowbias32, which the rounds of Permutation are, too.
class Thinning {
 public:
  /// `thin`: the probability, below 1.
  Thinning(std::uint64_t seed, std::uint64_t epoch, std::uint64_t pass, double thin)
      : limit_(static_cast<std::uint32_t>(
            std::min(thin * 4294967296.0 + 0.5, 4294967295.0))) {
    const Philox4x32Block counter{
        {static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
         static_cast<std::uint32_t>(pass),
         static_cast<std::uint32_t>(pass >> 32) + (kThinningTag << 24)}};
    const Philox4x32Block block = philox4x32(counter, philox_key(seed));
    key_[0] = block.word[0];
    key_[1] = block.word[1];
  }

  /// Writes the marks of `count` records from `first` on: those with a loss below
  /// `mean` stay with weight, or are left out. A loss that is not known is NaN.
  void mark(std::uint64_t first, const float* losses, std::uint64_t count, double mean,
            std::uint8_t* marks) const {
    const float bound = first_not_below(mean);
    while (count > 0) {  // the high half of a number is the same for all of a run
      const auto low = static_cast<std::uint32_t>(first);
      const std::uint64_t run =
          std::min(count, (std::uint64_t{1} << 32) - std::uint64_t{low});
      const auto high = static_cast<std::uint32_t>(first >> 32);
      run_of(low, key_[1] + high, losses, static_cast<std::uint32_t>(run), bound,
             marks);
      first += run;
      losses += run;
      marks += run;
      count -= run;
    }
  }

 private:
  /// The lowest float that is not below `mean`.
  static float first_not_below(double mean) {
    const auto near = static_cast<float>(mean);
    if (static_cast<double>(near) >= mean) return near;
    return std::nextafter(near, std::numeric_limits<float>::infinity());
  }

  void run_of(std::uint32_t low, std::uint32_t key, const float* losses,
              std::uint32_t count, float bound, std::uint8_t* marks) const {
#if defined(ECHOBUF_PERMUTATION_X86)
    if (cpu_level() >= CpuLevel::kAvx2)
      return run_avx2(*this, low, key, losses, count, bound, marks);
#endif
    each(low, key, losses, count, bound, marks);
  }

#if defined(ECHOBUF_PERMUTATION_X86)
  /// The same in lanes, which the compiler makes of it.
  __attribute__((target("avx2"))) static void run_avx2(
      const Thinning& coins, std::uint32_t low, std::uint32_t key, const float* losses,
      std::uint32_t count, float bound, std::uint8_t* marks) {
    coins.each(low, key, losses, count, bound, marks);
  }
#endif

  __attribute__((always_inline)) void each(std::uint32_t low, std::uint32_t key,
                                           const float* __restrict losses,
                                           std::uint32_t count, float bound,
                                           std::uint8_t* __restrict marks) const {
    constexpr std::uint32_t kStays = SavedSelection::kDrawn;
    constexpr std::uint32_t kCounts = kStays | SavedSelection::kWeighted;
    const std::uint32_t key0 = key_[0];
    const std::uint32_t limit = limit_;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t x = (low + i) ^ key0;
      x = (x ^ (x >> 16)) * 0x7FEB352Du;
      x = (x ^ (x >> 15) ^ key) * 0x846CA68Bu;
      x = (x ^ (x >> 16)) * 0x7FEB352Du;
      x ^= x >> 15;
      const std::uint32_t low_mark = x < limit ? 0 : kCounts;
      marks[i] = static_cast<std::uint8_t>(losses[i] < bound ? low_mark : kStays);
    }
  }

  std::uint32_t key_[2];
  const std::uint32_t limit_;
};

}  // namespace echobuf
