// Walking along the schedule of factor="auto".
#pragma once

#include <algorithm>
#include <cstdint>

#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/walk.hpp"

namespace echobuf {

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

}  // namespace echobuf
