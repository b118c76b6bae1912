// The pass schedule for a fixed factor, as a pure value: which records each pass
// sweeps. No threads, no memory, no clock.
#pragma once

#include <cstdint>

namespace echobuf {

/// A run of fresh records, numbered in the order in which they were put.
struct Span {
  std::uint64_t first;
  std::uint64_t count;

  std::uint64_t end() const { return first + count; }
};

/// An echoing factor as a ratio >= 1, in lowest terms.
struct Ratio {
  std::uint64_t num;
  std::uint64_t den;

  std::uint64_t ceil() const { return (num + den - 1) / den; }
  /// floor(i * num / den), exact for every i: i can pass 2^40 and num 2^50.
  std::uint64_t times(std::uint64_t i) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<Wide>(i) * num / den);
  }
};

/// The window is a FIFO of K = ceil(e) segments. Segment i enters with pass i, lives
/// floor((i+1)e) - floor(i*e) passes, and leaves; passes go on until all have left.
///
/// Integer e: segment j has floor((j+1)W/K) - floor(jW/K) records, so that K of them
/// fill the window exactly. Fractional e: all have floor(W/K), because lives of unequal
/// length over segments of unequal size would let the number of draws drift from n*e.
class FixedSchedule {
 public:
  FixedSchedule(std::uint64_t window, Ratio factor)
      : window_(window), factor_(factor), segments_(factor.ceil()) {}

  std::uint64_t segments() const { return segments_; }
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

  /// The first record of segment i.
  std::uint64_t segment_start(std::uint64_t i) const {
    if (fractional()) return i * (window_ / segments_);
    return i / segments_ * window_ + i % segments_ * window_ / segments_;
  }

  /// How many segments n records make, the last one perhaps partial.
  std::uint64_t segments_in(std::uint64_t n) const {
    if (fractional()) {
      const std::uint64_t segment = window_ / segments_;
      return (n + segment - 1) / segment;
    }
    const std::uint64_t rest = n % window_;
    return n / window_ * segments_ + (rest * segments_ + window_ - 1) / window_;
  }

  /// The number of passes that segment i takes part in.
  std::uint64_t life(std::uint64_t i) const {
    return factor_.times(i + 1) - factor_.times(i);
  }

  /// The oldest segment in the window of `pass`. Segments leave in the order in which
  /// they came: lives differ by at most one.
  std::uint64_t oldest_segment(std::uint64_t pass) const {
    std::uint64_t i = pass < segments_ ? 0 : pass - segments_ + 1;
    while (i + life(i) <= pass) ++i;
    return i;
  }

  /// The oldest record in the window of `pass`, if upstream has not ended before it.
  std::uint64_t oldest_record(std::uint64_t pass) const {
    return segment_start(oldest_segment(pass));
  }

  /// The number of passes over an upstream that ended after n records.
  std::uint64_t passes(std::uint64_t n) const {
    if (n == 0) return 0;
    const std::uint64_t last = segments_in(n) - 1;
    return last + life(last);
  }

  /// The number of draws over an upstream that ended after n records.
  std::uint64_t total_draws(std::uint64_t n) const {
    if (!fractional()) return n * factor_.num;
    const std::uint64_t segment = window_ / segments_;
    const std::uint64_t full = n / segment;
    return segment * factor_.times(full) + n % segment * life(full);
  }

 private:
  std::uint64_t window_;
  Ratio factor_;
  std::uint64_t segments_;
};

}  // namespace echobuf
