// Walking along the schedule of a fixed factor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/fixed_schedule.hpp"
#include "echobuf/schedule/walk.hpp"

namespace echobuf {

/// The walk for a fixed factor. It never depends on timing: a pass begins only when
/// its segment is full or upstream has ended.
class FixedSweep : public PackedBefore, public Selecting {
 public:
  /// A batch is drawn in one go or not at all.
  static constexpr bool kDrawsPartly = false;

  FixedSweep(std::uint64_t window, Ratio factor, std::uint64_t phase = 0)
      : schedule_(window, factor, phase) {}

  Step step(const UpstreamProgress& progress, std::uint64_t most, Part& part) {
    std::uint64_t left = 0;
    do {  // a pass of which all was left out has no draws
      const bool begins = position_.offset == 0 || done_;
      if (begins) {
        const Step begun = begin_pass(progress);
        if (begun != Step::kPart) return begun;
      }
      // The window stays as it was when the pass began, whatever has come since.
      look_at_pass(part);
      if (begins)
        begin_selection(part);
      else
        renew_selection(part, position_.offset);
      left = part.of_pass() - position_.offset;
      done_ = left == 0;
      if (done_) leave();
    } while (done_);
    part.offset = position_.offset;
    part.count = std::min(most, left);
    part.draw = position_.draws;
    position_.offset += part.count;
    position_.draws += part.count;
    done_ = part.count == left;
    if (done_) leave();
    return Step::kPart;
  }

  /// Returns whether the place is one that the pass has, of records that are known: a
  /// place that was restored may be none.
  bool is_in_pass() const {
    Part part;
    look_at_pass(part);
    return done_ || position_.offset < size(part.swept());
  }

  /// The oldest record still needed: at the end of a pass, that of the next one.
  std::uint64_t oldest_record() const { return oldest_; }

  /// The number of records that kWait waits for.
  std::uint64_t need() const { return need_; }
  void note_need(std::uint64_t need) { need_ = need; }
  /// Returns where the window of the current pass ends: records that a resume must put
  /// again.
  std::uint64_t resident_end() const { return resident_end_; }
  const Position& position() const { return position_; }

  /// Draws still to come once upstream has ended after n records. Where segments differ
  /// in size, and factor is fractional: at most so many, and exactly once all have
  /// entered; and at most, where records expire. So an epoch that is taken
  /// for done is.
  std::uint64_t remaining(std::uint64_t n) const {
    const std::uint64_t past = position_.draws + expired();
    if (counted_) return *counted_ - past + (n - resident_end_) * schedule_.segments();
    return schedule_.total_draws(n) - past;
  }

  const FixedSchedule& schedule() const { return schedule_; }

  /// Calls `use` with the first record of each segment in the window of `part`, which
  /// is of the last step, and with the passes that it was in before: the newest first.
  template <class Use>
  void for_segments(const Part& part, Use&& use) const {
    for (std::uint64_t i = part.pass;; --i) {
      const std::uint64_t start = schedule_.segment_start(i);
      if (start < part.window.end()) use(start, part.pass - i);
      if (start <= part.window.first) return;  // segments before are not known
    }
  }

  /// Segments begin where the table says: see FixedSchedule. Before the first step.
  void follow(const SegmentTable* table) { schedule_.follow(table); }
  /// The number of draws does not follow from that of records, if segments differ.
  void count_draws() {
    if (schedule_.fractional()) counted_ = 0;
  }
  /// The oldest segment that is still needed.
  std::uint64_t oldest_segment() const { return oldest_segment_; }
  /// The segments before it that ended by their records.
  std::uint64_t whole_before() const { return whole_before_; }
  /// The segment that begins where the window ends, unless upstream has ended there.
  std::uint64_t end_segment() const { return position_.pass + 1; }
  /// None where all of it follows from the number of records.
  std::optional<Counted> counted() const {
    if (!counted_) return std::nullopt;
    return Counted{*counted_, oldest_segment_, whole_before_};
  }

  using Selecting::restore;
  void restore(const Position& position, bool done, std::uint64_t resident_end) {
    position_ = position;
    done_ = done;
    resident_end_ = resident_end;
    oldest_segment_ = schedule_.oldest_segment(position.pass + (done ? 1 : 0));
    oldest_ = schedule_.segment_start(oldest_segment_);
  }
  /// The same where segments differ in size.
  void restore(const Position& position, bool done, std::uint64_t resident_end,
               std::uint64_t oldest, const std::optional<Counted>& counted) {
    restore(position, done, resident_end);
    oldest_ = oldest;
    counted_.reset();
    if (!counted) return;
    counted_ = counted->draws;
    oldest_segment_ = counted->oldest_segment;
    whole_before_ = counted->whole_before;
  }
  bool pass_done() const { return done_; }
  std::uint64_t passes_begun() const {
    return position_.draws ? position_.pass + 1 : 0;
  }

 private:
  void look_at_pass(Part& part) const {
    part.pass = position_.pass;
    part.window = {oldest_, resident_end_ - oldest_};
    part.sparse = schedule_.sparse(oldest_segment_, position_.pass);
  }

  /// The pass is over: what it alone still needed is not needed any more.
  void leave() {
    find_oldest(position_.pass + 1);
    if (oldest_ == SegmentTable::kUnknown) oldest_ = resident_end_;  // all have left
  }

  /// Begins the next pass. kPart: it has begun.
  Step begin_pass(const UpstreamProgress& progress) {
    const std::uint64_t pass = position_.pass + (done_ ? 1 : 0);
    std::uint64_t end = schedule_.segment_start(pass + 1);
    if (progress.committed < end) {
      need_ = end;
      if (!progress.ended) return Step::kWait;
      end = progress.committed;
      // All have left, the last one too?
      if (schedule_.oldest_record(pass, oldest_segment_) >= end) return Step::kFinished;
    }
    find_oldest(pass);
    if (counted_) *counted_ += schedule_.draws_of(pass);
    position_.pass = pass;
    position_.offset = 0;
    done_ = false;
    resident_end_ = end;
    return Step::kPart;
  }

  void find_oldest(std::uint64_t pass) {
    oldest_segment_ = schedule_.oldest_segment(pass, oldest_segment_);
    whole_before_ = schedule_.whole_before(oldest_segment_);
    oldest_ = schedule_.segment_start(oldest_segment_);
  }

  FixedSchedule schedule_;
  Position position_;
  bool done_ = false;  // the current pass has been drawn to its end
  std::uint64_t need_ = 0;
  std::uint64_t oldest_ = 0;
  std::uint64_t resident_end_ = 0;
  std::uint64_t oldest_segment_ = 0;
  std::uint64_t whole_before_ = 0;
  std::optional<std::uint64_t> counted_;  // draws of the segments that have entered
};

}  // namespace echobuf
