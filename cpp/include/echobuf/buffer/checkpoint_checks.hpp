// A place where a buffer is to go on: checked, since it may come from a file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/buffer/epoch_accounting.hpp"

namespace echobuf {

/// The part of a checkpoint that only the lengths of records tell, where segments
/// differ in size: the oldest record still needed; and more, if factor is fractional.
struct Entered {
  std::uint64_t oldest = 0;
  std::optional<Counted> counted;
};

namespace detail {

/// A ring has no more positions. What follows from larger numbers could overflow, or
/// take for ever.
inline constexpr std::uint64_t kMostRecords = std::uint64_t{1} << 48;

inline void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

/// `expires`: passes leave records out, so that they have fewer draws.
inline void check_position(const FixedSchedule& schedule, const Position& position,
                           bool pass_done, std::uint64_t resident_end,
                           bool expires = false) {
  constexpr auto* kOutside = "the position lies outside its pass";
  if (position.draws == 0) {
    require(position.pass == 0 && position.offset == 0 && !pass_done, kOutside);
    require(resident_end == 0, kOutside);
    return;
  }
  require(resident_end <= kMostRecords, "it has more records than a ring counts");
  // First: for other passes there is no bound on the work of finding their records.
  require(position.pass < schedule.passes(resident_end), kOutside);
  const std::uint64_t first = schedule.oldest_record(position.pass);
  require(first < resident_end, kOutside);
  require(resident_end <= schedule.segment_start(position.pass + 1), kOutside);
  const std::uint64_t size = resident_end - first;
  require(position.offset > 0 && position.offset <= size, kOutside);
  require(expires || pass_done == (position.offset == size), kOutside);
  // Each segment lives for as many passes as there are segments, at the most.
  require(position.offset <= position.draws &&
              position.draws / schedule.segments() <= resident_end,
          "the number of draws does not fit the position");
}

inline void check_limits(const AutoSchedule& schedule,
                         const AutoSchedule::State& state) {
  constexpr auto* kWrong = "the window does not fit the position";
  const std::uint64_t segments = schedule.segments();
  require(state.lo <= state.hi && state.hi - state.lo <= segments, kWrong);
  require(state.waiting == (state.lo == state.hi), kWrong);
  require(state.limit >= (segments + 1) / 2 && state.limit <= segments, kWrong);
}

inline void check_position(const AutoSchedule& schedule, const Position& position,
                           const AutoSchedule::State& state) {
  constexpr auto* kWrong = "the window does not fit the position";
  if (!state.begun) {
    require(state.lo == 0 && state.hi == 0 && state.end_record == 0, kWrong);
    require(!state.waiting && position.draws == 0 && position.offset == 0, kWrong);
    return;
  }
  const std::uint64_t segments = schedule.segments();
  require(state.end_record <= kMostRecords, "it has more records than a ring counts");
  // First: then where segments begin does not overflow.
  require(state.hi > 0 && state.hi / segments <= 2 * kMostRecords / schedule.capacity(),
          kWrong);
  check_limits(schedule, state);
  require(schedule.segment_start(state.hi - 1) < state.end_record &&
              state.end_record <= schedule.segment_start(state.hi),
          kWrong);
  require(position.offset > 0 && position.offset <= position.draws &&
              position.pass < position.draws,
          "the number of draws does not fit the position");
}

// ---- the same where segments differ in size: each has a record at least, and where
// they begin is known with the records

inline void check_entered(const Position& position, std::uint64_t resident_end,
                          std::uint64_t capacity, const Entered& entered) {
  constexpr auto* kWrong = "the window does not fit the position";
  require(resident_end <= kMostRecords, "it has more records than a ring counts");
  require(entered.oldest <= resident_end && resident_end - entered.oldest <= capacity,
          kWrong);
  require(position.offset > 0 && position.offset <= position.draws &&
              position.offset <= capacity && position.pass < position.draws,
          kWrong);
}

inline void check_counted(const FixedSchedule& schedule, std::uint64_t pass,
                          const Position& position, std::uint64_t resident_end,
                          std::uint64_t oldest, const Counted& counted) {
  constexpr auto* kWrong = "the window does not fit the position";
  const std::uint64_t segments = schedule.segments();
  require(counted.draws >= position.draws && counted.draws / segments <= resident_end,
          kWrong);
  // The records of a segment all live for segments - 1 passes, and some for one more.
  const std::uint64_t least = pass < segments ? 0 : pass - segments + 1;
  require(counted.oldest_segment >= least && counted.oldest_segment <= least + 1,
          kWrong);
  // Others have a record at least, and one less than these at most.
  const std::uint64_t most = schedule.segment_size(0);
  require(counted.whole_before <= counted.oldest_segment, kWrong);
  const std::uint64_t others = counted.oldest_segment - counted.whole_before;
  require(counted.whole_before <= oldest / most, kWrong);
  const std::uint64_t records = oldest - counted.whole_before * most;
  require(records >= others && (others == 0) == (records == 0) &&
              records <= others * (most - 1),
          kWrong);
}

inline void check_position(const FixedSchedule& schedule, const Position& position,
                           bool pass_done, std::uint64_t resident_end,
                           const Entered& entered) {
  constexpr auto* kWrong = "the window does not fit the position";
  const std::uint64_t segments = schedule.segments();
  require(schedule.fractional() == entered.counted.has_value(), kWrong);
  if (position.draws == 0) {
    check_position(schedule, position, pass_done, resident_end);
    require(entered.oldest == 0 && entered.counted.value_or(Counted{}) == Counted{},
            kWrong);
    return;
  }
  check_entered(position, resident_end, schedule.capacity(), entered);
  require(position.pass < resident_end + segments, kWrong);
  require(pass_done || position.offset < resident_end - entered.oldest, kWrong);
  require(position.draws / segments <= resident_end, kWrong);
  if (entered.counted)
    check_counted(schedule, position.pass + (pass_done ? 1 : 0), position, resident_end,
                  entered.oldest, *entered.counted);
}

inline void check_position(const AutoSchedule& schedule, const Position& position,
                           const AutoSchedule::State& state, const Entered& entered) {
  constexpr auto* kWrong = "the window does not fit the position";
  if (!state.begun) {
    check_position(schedule, position, state);
    require(entered.oldest == 0, kWrong);
    return;
  }
  check_entered(position, state.end_record, schedule.capacity(), entered);
  check_limits(schedule, state);
  require(state.hi <= state.end_record, kWrong);
  require(state.end_record - entered.oldest >= state.hi - state.lo, kWrong);
  require(state.waiting == (entered.oldest == state.end_record), kWrong);
}

}  // namespace detail

/// The rows that packing had begun. Throws std::invalid_argument where it cannot have.
inline OpenRows checked_rows(std::vector<PackedRow> rows, std::uint64_t row_length) {
  if (rows.size() > RowPacker::kOpen)
    throw std::invalid_argument("more rows are open than there may be");
  for (const PackedRow& row : rows)
    if (row.used > row_length) throw std::invalid_argument("an open row is too long");
  return std::make_shared<const std::vector<PackedRow>>(std::move(rows));
}

/// Puts a walk where it was. Throws std::invalid_argument where it cannot have been.
/// `phase`: of the schedule that it was on. `entered`: where segments differ in size.
/// `expires`: passes leave records out; restore_selection() follows.
inline void restore_sweep(FixedSweep& sweep, const Position& position, bool pass_done,
                          std::uint64_t resident_end, std::uint64_t phase,
                          const std::optional<Entered>& entered = std::nullopt,
                          bool expires = false) {
  if (phase != sweep.schedule().phase())
    throw std::invalid_argument("the position is of another phase of the factor");
  if (entered) {
    detail::check_position(sweep.schedule(), position, pass_done, resident_end,
                           *entered);
    sweep.restore(position, pass_done, resident_end, entered->oldest, entered->counted);
    return;
  }
  detail::check_position(sweep.schedule(), position, pass_done, resident_end, expires);
  sweep.restore(position, pass_done, resident_end);
}

/// `uses`: of the segments in the window, the oldest first.
inline void restore_sweep(AutoSweep& sweep, const Position& position,
                          AutoSchedule::State state,
                          const std::vector<std::uint32_t>& uses,
                          const std::optional<Entered>& entered = std::nullopt) {
  if (state.hi < state.lo || state.hi - state.lo > AutoSchedule::kMaxSegments ||
      uses.size() != state.hi - state.lo)
    throw std::invalid_argument("the window has too many segments");
  state.pass = position.pass;
  for (std::uint64_t i = state.lo; i < state.hi; ++i)
    state.uses[i % AutoSchedule::kMaxSegments] = uses[i - state.lo];
  if (entered) {
    detail::check_position(sweep.schedule(), position, state, *entered);
    state.first_record = entered->oldest;
  } else {
    detail::check_position(sweep.schedule(), position, state);
    state.first_record =
        std::min(sweep.schedule().segment_start(state.lo), state.end_record);
  }
  sweep.restore(state, position);
  // After a pass whose records have all left, the window is empty.
  if (!state.waiting && position.offset > sweep.schedule().span().count)
    throw std::invalid_argument("the position lies outside its pass");
}

/// The rows that packing had begun where the walk is. Throws std::invalid_argument
/// where they cannot have had draws from later on.
template <class S>
void restore_rows(S& sweep, const OpenRows& rows, std::uint64_t served_ahead) {
  constexpr auto* kWrong = "more was served than the open rows hold";
  detail::require(served_ahead <= detail::kMostRecords, kWrong);
  detail::require(rows || served_ahead == 0, kWrong);
  sweep.open_rows = rows;
  sweep.served_ahead = served_ahead;
}

/// The records that passes have left out. Throws std::invalid_argument where they
/// cannot have.
template <class S>
void restore_selection(S& sweep, const SelectionState& state) {
  constexpr auto* kWrong = "the records that are left out do not fit the position";
  const SavedSelection& pass = state.pass;
  const Position& at = sweep.position();
  const std::uint64_t size = pass.marks.size();
  const std::uint64_t drawn = pass.draws();
  const bool pass_done = at.offset == drawn;
  for (const std::uint8_t mark : pass.marks) detail::require(mark <= 1, kWrong);
  detail::require(at.draws > 0 && at.offset <= drawn, kWrong);
  detail::require(
      state.expired <= detail::kMostRecords * (at.pass + 1) && state.newest >= -1,
      kWrong);
  if constexpr (requires { sweep.pass_done(); })
    detail::require(pass_done == sweep.pass_done(), kWrong);
  const std::uint64_t oldest = sweep.oldest_record();
  if (pass_done)
    detail::require(pass.first <= oldest && size <= detail::kMostRecords, kWrong);
  else
    detail::require(pass.first == oldest && size == sweep.resident_end() - oldest,
                    kWrong);
  sweep.restore(state);
}

/// Throws std::invalid_argument if upstream ended before what was taken of it.
inline void check_total(const Checkpoint& point) {
  if (!point.total) return;
  detail::require(
      *point.total <= detail::kMostRecords && *point.total >= resident_end(point.sweep),
      "upstream's length does not fit the position");
}

}  // namespace echobuf
