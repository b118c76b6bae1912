// The pass schedule for a fixed factor, as a pure value: which records each pass
// sweeps. No threads, no memory, no clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "echobuf/ratio.hpp"
#include "echobuf/schedule/extra_uses.hpp"
#include "echobuf/schedule/random.hpp"
#include "echobuf/schedule/segment_table.hpp"
#include "echobuf/schedule/span.hpp"

namespace echobuf {

/// Philox's fourth counter word, for the phases of a seed; see kPermutationTag.
inline constexpr std::uint32_t kPhaseTag = 0xC0;

/// The phase of an epoch: a number below factor.den, 0 for an integer factor. It says
/// which segments live the longer of the two lives that a fractional factor gives.
///
/// Specification (tests/schedule_reference.py is written from it):
///
///   start   S = words 0 and 1 of Philox4x32-10 of the counter (0, 0, 0, 0xC0 * 2^24)
///           under the key `seed`, as a number of 64 bits, word 0 the low half.
///   den     up to 10: (floor(S * den / 2^64) + epoch * step) mod den, where step for
///           den = 2 ... 10 is 1, 2, 3, 3, 5, 4, 5, 5, 7.
///           above:    floor(((S + epoch * G) mod 2^64) * den / 2^64), where
///           G = 0x9E3779B97F4A7C15.
///
/// Up to 10: each step is coprime to den, so that any den epochs in a row have all
/// phases, and each segment lives exactly num passes in them (Hermite's identity). The
/// steps are near den divided by the golden ratio: the parts of ten epochs that are no
/// whole turn are spread, too.
///
/// Above: S + epoch * G, over 2^64, is a rotation by the golden ratio. A segment lives
/// ceil(e) passes where that falls into an arc as long as the fraction of e. Of ten
/// points in a row an arc holds its share and less than 1.82 more or fewer, wherever it
/// lies and however long it is, and rounding to den moves no point across the ends of
/// an arc. So over ten epochs each mean is within 0.19 of e. (No coprime step does as
/// well for each den: with 26 the nearest to the golden ratio, 17, errs by 0.25.)
inline std::uint64_t epoch_phase(Ratio factor, std::uint64_t seed,
                                 std::uint64_t epoch) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  constexpr std::uint64_t kSteps[] = {0, 0, 1, 2, 3, 3, 5, 4, 5, 5, 7};
  if (factor.den == 1) return 0;
  const Philox4x32Block block =
      philox4x32({{0, 0, 0, kPhaseTag << 24}}, philox_key(seed));
  const std::uint64_t start = std::uint64_t{block.word[1]} << 32 | block.word[0];
  const auto scaled = [&](std::uint64_t part) {
    return static_cast<std::uint64_t>(static_cast<Wide>(part) * factor.den >> 64);
  };
  if (factor.den >= std::size(kSteps)) return scaled(start + epoch * kGolden);
  return (scaled(start) + epoch % factor.den * kSteps[factor.den]) % factor.den;
}

/// The window is a FIFO of K = ceil(e) segments. Segment i enters with pass i, lives
/// floor((i+1)e + u) - floor(i*e + u) passes, and leaves; passes go on until all have
/// left. `phase` is u * den: see epoch_phase().
///
/// Integer e: segment j has floor((j+1)W/K) - floor(jW/K) records, so that K of them
/// fill the window exactly. Fractional e: all have floor(W/K), because lives of unequal
/// length over segments of unequal size would let the number of draws drift from n*e.
/// With a table, segments that end by their payload are smaller: of these each record
/// has a life of its own, see ExtraUses, and the last pass over them sweeps a part of
/// their records. The others are counted as if there were no such ones between them.
class FixedSchedule {
 public:
  /// `phase` is below factor.den.
  FixedSchedule(std::uint64_t window, Ratio factor, std::uint64_t phase = 0)
      : window_(window), factor_(factor), phase_(phase), segments_(factor.ceil()) {}

  /// Equal if segments have the same numbers of records, and live alike.
  bool operator==(const FixedSchedule& other) const {
    return window_ == other.window_ && factor_ == other.factor_ &&
           phase_ == other.phase_;
  }

  std::uint64_t segments() const { return segments_; }
  std::uint64_t phase() const { return phase_; }
  bool fractional() const { return factor_.den != 1; }

  /// Slots that the ring needs: the window, the segment being filled, and for a
  /// fractional factor half a segment more, since passes then differ in length by one
  /// segment while upstream is even.
  std::uint64_t capacity() const {
    return window_ + largest_segment() + (fractional() ? largest_segment() / 2 : 0);
  }
  std::uint64_t largest_segment() const {
    return (window_ + segments_ - 1) / segments_;
  }

  /// From now on segments begin where the table says, which knows the sizes of records.
  /// It must outlive this and its copies, and is asked by no other thread.
  void follow(const SegmentTable* table) { table_ = table; }

  /// The first record of segment i; SegmentTable::kUnknown if that is not known yet.
  std::uint64_t segment_start(std::uint64_t i) const {
    return table_ ? table_->start(i) : start_by_number(i);
  }
  /// The most records of segment i.
  std::uint64_t segment_size(std::uint64_t i) const {
    return start_by_number(i + 1) - start_by_number(i);
  }

  /// The segments before segment i that end by their records: see SegmentTable.
  std::uint64_t whole_before(std::uint64_t i) const {
    return table_ ? table_->whole_before(i) : i;
  }

  /// Returns how many segments n records make, the last one perhaps partial. With a
  /// table: those that it knows.
  std::uint64_t segments_in(std::uint64_t n) const {
    if (table_) return table_->segments();
    if (fractional()) {
      const std::uint64_t segment = window_ / segments_;
      return (n + segment - 1) / segment;
    }
    const std::uint64_t rest = n % window_;
    return n / window_ * segments_ + (rest * segments_ + window_ - 1) / window_;
  }

  /// The number of passes that segment i takes part in, with some of its records at
  /// least. With a table: of one that is full, or the last.
  std::uint64_t life(std::uint64_t i) const {
    if (table_ && table_->is_short(i))
      return least_life() + (extra_draws(i) > 0 ? 1 : 0);
    const std::uint64_t number = whole_before(i);
    return lives_before(number + 1) - lives_before(number);
  }

  /// The number of draws from segment i, under the same condition.
  std::uint64_t draws_of(std::uint64_t i) const {
    const std::uint64_t records = table_->records(i);
    if (table_->is_short(i)) return records * least_life() + extra_draws(i);
    return records * life(i);
  }

  /// The records of the oldest segment of `pass`, if the pass sweeps some of them.
  Sparse sparse(std::uint64_t oldest, std::uint64_t pass) const {
    if (!table_ || pass < oldest + least_life() || !table_->is_short(oldest)) return {};
    const std::uint64_t number = single_before(oldest);
    return {table_->records(oldest), extra_draws(oldest), number,
            extra_uses().before(number), extra_uses()};
  }

  /// The oldest segment in the window of `pass`. Segments leave in the order in which
  /// they came: lives differ by at most one. `from`: it is no earlier one.
  std::uint64_t oldest_segment(std::uint64_t pass, std::uint64_t from = 0) const {
    std::uint64_t i = std::max(from, pass < segments_ ? 0 : pass - segments_ + 1);
    while (i + life(i) <= pass) ++i;
    return i;
  }

  /// The oldest record in the window of `pass`, if upstream has not ended before it.
  std::uint64_t oldest_record(std::uint64_t pass, std::uint64_t from = 0) const {
    return segment_start(oldest_segment(pass, from));
  }

  /// The number of passes over an upstream that ended after n records.
  std::uint64_t passes(std::uint64_t n) const {
    if (n == 0) return 0;
    const std::uint64_t last = segments_in(n) - 1;
    return last + life(last);
  }

  /// The number of draws over an upstream that ended after n records, if segments have
  /// the same sizes.
  std::uint64_t total_draws(std::uint64_t n) const {
    if (!fractional()) return n * factor_.num;
    const std::uint64_t segment = window_ / segments_;
    const std::uint64_t full = n / segment;
    return segment * lives_before(full) + n % segment * life(full);
  }

 private:
  std::uint64_t start_by_number(std::uint64_t i) const {
    if (fractional()) return i * (window_ / segments_);
    return i / segments_ * window_ + i % segments_ * window_ / segments_;
  }

  std::uint64_t least_life() const { return factor_.num / factor_.den; }

  ExtraUses extra_uses() const { return {factor_, phase_}; }
  /// Records of short segments before segment i.
  std::uint64_t single_before(std::uint64_t i) const {
    return table_->start(i) - table_->whole_before(i) * (window_ / segments_);
  }
  /// Records of a short segment that live for one pass more.
  std::uint64_t extra_draws(std::uint64_t i) const {
    if (!fractional()) return 0;
    const std::uint64_t number = single_before(i);
    return extra_uses().before(number + table_->records(i)) -
           extra_uses().before(number);
  }

  /// The passes that segments 0 ... i-1 take part in, summed.
  std::uint64_t lives_before(std::uint64_t i) const { return factor_.times(i, phase_); }

  std::uint64_t window_;
  Ratio factor_;
  std::uint64_t phase_;
  std::uint64_t segments_;
  const SegmentTable* table_ = nullptr;  // null: records are of one size
};

}  // namespace echobuf
