// The pass schedule for factor="auto", as a pure value: what the window becomes at the
// end of a pass, given what upstream has delivered by then.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "echobuf/schedule/fixed_schedule.hpp"

namespace echobuf {

/// The progress of upstream when a pass ends.
struct UpstreamProgress {
  std::uint64_t committed = 0;  // records, all of them complete up to here
  bool held_back = false;       // a producer found the ring full during the pass
  bool ended = false;           // `committed` is all that there will ever be
};

/// The window is a FIFO of many small segments. When a pass ends, filled segments enter
/// at once and the oldest leave to make room; if none is filled, the same window is
/// swept again: that is the echo. Slots are freed only when a pass ends, so the share
/// of the ring that is left free for filling must follow the rate of upstream: `limit`,
/// the segments that the window may hold, leaves free what upstream filled during the
/// last pass. Where it was held back, and at first, it is half of the ring: e = 1.
class AutoSchedule {
 public:
  static constexpr std::uint64_t kMaxSegments = 16;
  static constexpr std::uint64_t kMinSegments = 4;  // a quarter is the first pass

  enum class Next { kPass, kWait, kFinished };

  /// The part that a checkpoint holds; all else follows from the arguments.
  struct State {
    std::uint64_t pass = 0;  // passes begun, less one
    std::uint64_t lo = 0;    // the window is the segments lo ... hi-1
    std::uint64_t hi = 0;
    std::uint64_t end_record = 0;    // where the window ends: a last segment is partial
    std::uint64_t first_record = 0;  // where it begins
    std::uint64_t limit = 0;
    bool begun = false;    // the first pass has begun
    bool waiting = false;  // between two passes, the last one accounted for
    std::array<std::uint32_t, kMaxSegments> uses{};  // of segment i at i % kMaxSegments
  };

  AutoSchedule(std::uint64_t window, std::uint64_t batch_size, std::uint32_t max_factor)
      : window_(window),
        max_factor_(max_factor),
        segments_(std::min(
            window, std::clamp(window / batch_size, kMinSegments, kMaxSegments))),
        quarter_(std::max((window + 3) / 4, batch_size)),
        quarter_segments_((quarter_ * segments_ + window - 1) / window) {
    // The first pass has all that it began for.
    state_.limit = std::max(smallest_limit(), quarter_segments_);
  }

  std::uint64_t segments() const { return segments_; }
  std::uint64_t capacity() const { return window_ + largest_segment(); }
  std::uint64_t largest_segment() const {
    return (window_ + segments_ - 1) / segments_;
  }

  /// See FixedSchedule.
  void follow(const SegmentTable* table) { table_ = table; }

  /// The first record of segment i. The boundaries are laid so that one of them is
  /// exactly where the first pass may begin. SegmentTable::kUnknown if that is not
  /// known yet.
  std::uint64_t segment_start(std::uint64_t i) const {
    return table_ ? table_->start(i) : start_by_number(i);
  }
  /// The most records of segment i.
  std::uint64_t segment_size(std::uint64_t i) const {
    return start_by_number(i + 1) - start_by_number(i);
  }

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }
  std::uint32_t uses(std::uint64_t segment) const {
    return state_.uses[segment % kMaxSegments];
  }

  Span span() const {
    return {state_.first_record, state_.end_record - state_.first_record};
  }

  /// The oldest record that is, or may still be, needed.
  std::uint64_t oldest_record() const { return state_.first_record; }

  /// The number of records that must be there before anything can happen;
  /// SegmentTable::kUnknown if that is not known yet.
  std::uint64_t need() const {
    return segment_start(state_.begun ? state_.hi + 1 : quarter_segments_);
  }

  /// Called before the first pass and whenever a pass has been drawn to its end (and
  /// again after kWait): accounts for the last pass and begins the next if there is
  /// one.
  Next advance(const UpstreamProgress& progress) {
    if (!state_.begun) return begin(progress);
    if (!state_.waiting) close_books(progress);
    const std::uint64_t filled = filled_segments(progress);
    if (filled > state_.hi) return enter(filled - state_.hi, progress);
    if (progress.ended) return Next::kFinished;
    leave(std::max(state_.lo, state_.hi - std::min(state_.hi, state_.limit)));
    if (state_.lo == state_.hi) return wait();
    return pass();
  }

 private:
  std::uint64_t start_by_number(std::uint64_t i) const {
    if (i <= quarter_segments_) return i * quarter_ / quarter_segments_;
    const std::uint64_t more = i - quarter_segments_;
    return quarter_ + more / segments_ * window_ +
           more % segments_ * window_ / segments_;
  }

  std::uint64_t smallest_limit() const { return (segments_ + 1) / 2; }

  /// Segments that are filled; after the end the last, partial one is filled too.
  std::uint64_t filled_segments(const UpstreamProgress& progress) const {
    std::uint64_t i = state_.hi;
    if (state_.end_record >= progress.committed) return i;
    while (segment_start(i + 1) <= progress.committed) ++i;
    if (progress.ended && segment_start(i) < progress.committed) ++i;
    return i;
  }

  Next begin(const UpstreamProgress& progress) {
    if (progress.committed < need() && !progress.ended) return Next::kWait;
    const std::uint64_t filled = filled_segments(progress);
    if (filled == 0) return Next::kFinished;
    state_.begun = true;
    state_.pass = ~std::uint64_t{0};  // pass() makes it 0
    return enter(filled, progress);
  }

  void close_books(const UpstreamProgress& progress) {
    adapt(progress);
    for (std::uint64_t i = state_.lo; i < state_.hi; ++i)
      ++state_.uses[i % kMaxSegments];
    std::uint64_t lo = state_.lo;
    while (lo < state_.hi && uses(lo) >= max_factor_) ++lo;
    leave(lo);
  }

  /// Segments before `lo` leave the window.
  void leave(std::uint64_t lo) {
    state_.lo = lo;
    state_.first_record = std::min(segment_start(lo), state_.end_record);
  }

  /// A window of `limit` segments and what upstream fills meanwhile, at the rate of the
  /// last pass, are the ring, less the segment that is being filled.
  void adapt(const UpstreamProgress& progress) {
    const std::uint64_t swept = span().count;
    const std::uint64_t filled = progress.committed - state_.end_record;
    const std::uint64_t share = segments_ * swept / (swept + filled);
    state_.limit =
        progress.held_back ? smallest_limit() : std::max(smallest_limit(), share);
  }

  Next enter(std::uint64_t ready, const UpstreamProgress& progress) {
    const std::uint64_t hi = state_.hi;
    // After the end only what was never served is swept, once.
    const std::uint64_t most = progress.ended ? segments_ : state_.limit;
    const std::uint64_t entering = std::min(ready, most);
    for (std::uint64_t i = hi; i < hi + entering; ++i)
      state_.uses[i % kMaxSegments] = 0;
    state_.hi = hi + entering;
    state_.end_record = std::min(segment_start(state_.hi), progress.committed);
    const std::uint64_t lo = progress.ended ? hi : state_.lo;
    leave(std::max(lo, state_.hi - std::min(state_.hi, most)));
    return pass();
  }

  Next pass() {
    ++state_.pass;
    state_.waiting = false;
    return Next::kPass;
  }

  Next wait() {
    state_.waiting = true;
    return Next::kWait;
  }

  std::uint64_t window_;
  std::uint32_t max_factor_;
  std::uint64_t segments_;
  std::uint64_t quarter_;                // records of the first pass
  std::uint64_t quarter_segments_;       // and the segments that they are divided into
  const SegmentTable* table_ = nullptr;  // null: records are of one size
  State state_;
};

}  // namespace echobuf
