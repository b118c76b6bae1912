// Walking along a schedule: which records the next draws come from. Small values, so a
// walk can be tried on a copy and thrown away.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "echobuf/buffer/options.hpp"
#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/fixed_schedule.hpp"
#include "echobuf/schedule/part.hpp"
#include "echobuf/schedule/row_packer.hpp"
#include "echobuf/schedule/selection.hpp"

namespace echobuf {

/// A place in the chain of passes.
struct Position {
  std::uint64_t pass = 0;
  std::uint64_t offset = 0;  // draws taken from this pass
  std::uint64_t draws = 0;   // draws taken in all
};

enum class Step { kPart, kWait, kFinished };

/// The rest of a place in the chain of passes, where rows are packed: they are handed
/// out after examples that come later have joined them.
struct PackedBefore {
  OpenRows open_rows;
  std::uint64_t served_ahead = 0;  // draws after the place, in rows handed out before
  bool last = false;               // the rest is no batch, and is given up
};

/// Of a place in the chain of passes, what only the lengths of records tell.
struct Counted {
  std::uint64_t draws = 0;  // of all segments that have entered
  std::uint64_t oldest_segment = 0;
  std::uint64_t whole_before = 0;  // segments before that, which ended by their records

  bool operator==(const Counted&) const = default;
};

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
  /// entered; and at most, where passes leave records out. So an epoch that is taken
  /// for done is.
  std::uint64_t remaining(std::uint64_t n) const {
    const std::uint64_t past = position_.draws + left_out();
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

/// The walk for factor="auto". What the next pass sweeps is decided when it begins, so
/// a batch can be cut by a wait in its middle.
class AutoSweep : public PackedBefore, public Selecting {
 public:
  static constexpr bool kDrawsPartly = true;

  AutoSweep(std::uint64_t window, std::uint64_t batch_size, std::uint32_t max_factor)
      : schedule_(window, batch_size, max_factor) {}

  /// True if the next step ends a pass, or goes on waiting after one: it then decides
  /// by the records that upstream has put so far.
  bool between_passes() const {
    return !schedule_.state().begun || schedule_.state().waiting ||
           offset_ == size(schedule_.span().count);
  }

  Step step(const UpstreamProgress& progress, std::uint64_t most, Part& part) {
    part = {};
    do {  // a pass of which all was left out has no draws
      const bool begins = between_passes();
      if (begins) {
        switch (schedule_.advance(progress)) {
          case AutoSchedule::Next::kWait:
            return Step::kWait;
          case AutoSchedule::Next::kFinished:
            return Step::kFinished;
          case AutoSchedule::Next::kPass:
            offset_ = 0;
        }
      }
      part.pass = schedule_.state().pass;
      part.window = schedule_.span();
      if (begins)
        begin_selection(part);
      else
        renew_selection(part, offset_);
    } while (offset_ == part.of_pass());
    part.offset = offset_;
    part.count = std::min(most, part.of_pass() - offset_);
    part.draw = draws_;
    offset_ += part.count;
    draws_ += part.count;
    return Step::kPart;
  }

  std::uint64_t oldest_record() const { return schedule_.oldest_record(); }
  std::uint64_t need() const { return schedule_.need(); }
  std::uint64_t resident_end() const { return schedule_.state().end_record; }
  Position position() const { return {schedule_.state().pass, offset_, draws_}; }

  std::uint64_t remaining(std::uint64_t n) const {
    const AutoSchedule::State& state = schedule_.state();
    const std::uint64_t in_pass =
        state.begun && !state.waiting ? size(schedule_.span().count) - offset_ : 0;
    return in_pass + (n - state.end_record);
  }

  const AutoSchedule& schedule() const { return schedule_; }

  /// See FixedSweep.
  template <class Use>
  void for_segments(const Part&, Use&& use) const {
    const AutoSchedule::State& state = schedule_.state();
    for (std::uint64_t i = state.hi; i-- > state.lo;)
      use(schedule_.segment_start(i), std::uint64_t{schedule_.uses(i)});
  }

  /// See FixedSweep.
  void follow(const SegmentTable* table) { schedule_.follow(table); }
  std::uint64_t oldest_segment() const { return schedule_.state().lo; }
  std::uint64_t end_segment() const { return schedule_.state().hi; }

  using Selecting::restore;
  void restore(const AutoSchedule::State& state, const Position& position) {
    schedule_.restore(state);
    offset_ = position.offset;
    draws_ = position.draws;
  }
  std::uint64_t passes_begun() const {
    return schedule_.state().begun ? schedule_.state().pass + 1 : 0;
  }

 private:
  AutoSchedule schedule_;
  std::uint64_t offset_ = 0;
  std::uint64_t draws_ = 0;
};

using Sweep = std::variant<FixedSweep, AutoSweep>;

/// The walk from the start of an epoch.
inline Sweep make_sweep(const BufferOptions& options, std::uint64_t epoch) {
  if (options.automatic) {
    // A batch of packed rows is no number of records.
    const std::uint64_t batch = options.lengths.pack_to > 0 ? 1 : options.batch_size;
    return AutoSweep(options.window, batch, options.max_factor);
  }
  FixedSweep sweep(options.window, options.factor,
                   epoch_phase(options.factor, options.seed, epoch));
  if (options.lengths.any()) sweep.count_draws();
  return sweep;
}

/// The segments before the oldest one still needed that ended by their records; 0 where
/// nothing depends on it.
inline std::uint64_t whole_before(const Sweep& sweep) {
  const auto* fixed = std::get_if<FixedSweep>(&sweep);
  return fixed ? fixed->whole_before() : 0;
}

/// The same in all epochs.
inline std::uint64_t ring_capacity(const BufferOptions& options) {
  return std::visit([](const auto& sweep) { return sweep.schedule().capacity(); },
                    make_sweep(options, options.epoch));
}

/// Records that enter and leave the window together, at most.
inline std::uint64_t largest_segment(const BufferOptions& options) {
  return std::visit(
      [](const auto& sweep) { return sweep.schedule().largest_segment(); },
      make_sweep(options, options.epoch));
}

/// The oldest record still needed.
inline std::uint64_t oldest_record(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.oldest_record(); }, sweep);
}

/// The oldest segment still needed.
inline std::uint64_t oldest_segment(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.oldest_segment(); }, sweep);
}

/// The segment that begins where the window ends, unless upstream has ended there.
inline std::uint64_t end_segment(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.end_segment(); }, sweep);
}

/// Returns whether the place is one that its pass has, of records that are known: see
/// FixedSweep. With "auto" the pass is known before its records are.
inline bool is_in_pass(const Sweep& sweep) {
  const auto* fixed = std::get_if<FixedSweep>(&sweep);
  return !fixed || fixed->is_in_pass();
}

/// True if segments live for different numbers of passes.
inline bool lives_vary(const Sweep& sweep) {
  const auto* fixed = std::get_if<FixedSweep>(&sweep);
  return fixed && fixed->schedule().fractional();
}

/// The most records of segment i.
inline std::uint64_t segment_size(const Sweep& sweep, std::uint64_t i) {
  return std::visit([&](const auto& s) { return s.schedule().segment_size(i); }, sweep);
}

inline std::uint64_t draws(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.position().draws; }, sweep);
}

/// Draws that were handed out by then.
inline std::uint64_t served(const Sweep& sweep) {
  return draws(sweep) + std::visit([](const auto& s) { return s.served_ahead; }, sweep);
}

/// The rows that packing had begun there.
inline OpenRows open_rows(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.open_rows; }, sweep);
}

/// Returns where the window of the current pass ends.
inline std::uint64_t resident_end(const Sweep& sweep) {
  return std::visit([](const auto& s) { return s.resident_end(); }, sweep);
}

/// True if both walk over windows of the same size and segments, which live alike.
inline bool walks_alike(const Sweep& one, const Sweep& other) {
  if (one.index() != other.index()) return false;
  if (const auto* fixed = std::get_if<FixedSweep>(&one))
    return fixed->schedule() == std::get<FixedSweep>(other).schedule();
  const AutoSchedule& mine = std::get<AutoSweep>(one).schedule();
  const AutoSchedule& theirs = std::get<AutoSweep>(other).schedule();
  return mine.capacity() == theirs.capacity() &&
         mine.largest_segment() == theirs.largest_segment();
}

}  // namespace echobuf
