// Which records have the extra use of a fractional factor, where segments differ in
// size. Pure values.
#pragma once

#include <cstdint>

#include "echobuf/ratio.hpp"

namespace echobuf {

/// Of records 0, 1, 2, ... those that are used ceil(e) times, where e lies between two
/// whole numbers: spread evenly, so that of any first ones the fraction of e has the
/// extra use, up to less than one record.
///
/// Record r has it if floor((r+1)f + v) > floor(r*f + v), where f is the fraction of e
/// and v = (den - 1 - phase) / den. The phase turns from epoch to epoch, see
/// epoch_phase(): so over ten epochs each record's mean is within 0.19 of e. It is
/// mirrored, so that a part of an epoch with too many draws by whole segments, which
/// go by the phase itself, has too few by single records.
class ExtraUses {
 public:
  ExtraUses() = default;  // none
  ExtraUses(Ratio factor, std::uint64_t phase)
      : fraction_{factor.num % factor.den, factor.den},
        start_(factor.den - 1 - phase) {}

  /// The number of them among records 0 ... r-1.
  std::uint64_t before(std::uint64_t r) const { return fraction_.times(r, start_); }

  /// The number of the record that is the (k+1)-th of them: the least r for which
  /// before(r + 1) is k + 1.
  std::uint64_t nth(std::uint64_t k) const {
    // (r+1) * num >= (k+1) * den - start, where start < den.
    const Ratio inverse{fraction_.den, fraction_.num};
    return inverse.times(k, fraction_.den - start_ + fraction_.num - 1) - 1;
  }

 private:
  Ratio fraction_{0, 1};  // below 1; 0 for a whole factor
  std::uint64_t start_ = 0;
};

/// The first records of a window, of which a pass sweeps some.
struct Sparse {
  std::uint64_t records = 0;  // none: the pass sweeps all of the window
  std::uint64_t draws = 0;
  std::uint64_t number = 0;  // of the first of them, among those of `extra`
  std::uint64_t rank = 0;    // of those with the extra use, before the first
  ExtraUses extra;

  std::uint64_t left_out() const { return records - draws; }

  /// The place in the window of what the pass counts as number i.
  std::uint32_t place(std::uint32_t i) const {
    if (i >= draws) return static_cast<std::uint32_t>(i + left_out());
    return static_cast<std::uint32_t>(extra.nth(rank + i) - number);
  }
  /// The same of many, in place.
  void place_all(std::uint32_t* numbers, std::uint64_t count) const {
    if (records == 0) return;
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = place(numbers[i]);
  }
};

}  // namespace echobuf
