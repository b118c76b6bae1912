// A checkpoint as a list of integers, to be kept in a file: and back, checked.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/buffer/buffer.hpp"

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

/// `selects`: passes leave records out, so that they have fewer draws.
inline void check_position(const FixedSchedule& schedule, const Position& position,
                           bool pass_done, std::uint64_t resident_end,
                           bool selects = false) {
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
  require(selects || pass_done == (position.offset == size), kOutside);
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
inline OpenRows checked_rows(std::vector<PackedRow> rows, std::uint64_t pack_to) {
  if (rows.size() > RowPacker::kOpen)
    throw std::invalid_argument("more rows are open than there may be");
  for (const PackedRow& row : rows)
    if (row.used > pack_to) throw std::invalid_argument("an open row is too long");
  return std::make_shared<const std::vector<PackedRow>>(std::move(rows));
}

/// Puts a walk where it was. Throws std::invalid_argument where it cannot have been.
/// `phase`: of the schedule that it was on. `entered`: where segments differ in size.
/// `selects`: passes leave records out; restore_selection() follows.
inline void restore_sweep(FixedSweep& sweep, const Position& position, bool pass_done,
                          std::uint64_t resident_end, std::uint64_t phase,
                          const std::optional<Entered>& entered = std::nullopt,
                          bool selects = false) {
  if (phase != sweep.schedule().phase())
    throw std::invalid_argument("the position is of another phase of the factor");
  if (entered) {
    detail::check_position(sweep.schedule(), position, pass_done, resident_end,
                           *entered);
    sweep.restore(position, pass_done, resident_end, entered->oldest, entered->counted);
    return;
  }
  detail::check_position(sweep.schedule(), position, pass_done, resident_end, selects);
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
/// cannot have. `thins`: uses are counted.
template <class S>
void restore_selection(S& sweep, const SelectionState& state, bool thins) {
  constexpr auto* kWrong = "the records that are left out do not fit the position";
  const SavedSelection& pass = state.pass;
  const Position& at = sweep.position();
  const std::uint64_t size = pass.marks.size();
  const std::uint64_t drawn = pass.draws();
  const bool pass_done = at.offset == drawn;
  for (const std::uint8_t mark : pass.marks)
    detail::require(mark == 0 || (mark <= 3 && (mark & SavedSelection::kDrawn)),
                    kWrong);
  detail::require(at.draws > 0 && at.offset <= drawn, kWrong);
  detail::require(pass.uses.size() == (thins ? size : 0), kWrong);
  for (std::uint64_t i = 0; i < pass.uses.size(); ++i)
    detail::require(pass.uses[i] > 0 || pass.marks[i] == 0, kWrong);
  detail::require(state.expired <= state.left_out &&
                      state.left_out <= detail::kMostRecords * (at.pass + 1) &&
                      state.newest >= -1,
                  kWrong);
  if constexpr (requires { sweep.pass_done(); })
    detail::require(pass_done == sweep.pass_done(), kWrong);
  const std::uint64_t oldest = sweep.oldest_record();
  if (pass_done)
    detail::require(pass.first <= oldest && size <= detail::kMostRecords, kWrong);
  else
    detail::require(pass.first == oldest && size == sweep.resident_end() - oldest,
                    kWrong);
  sweep.restore(state, pass_done);
}

/// Throws std::invalid_argument if upstream ended before what was taken of it.
inline void check_total(const Checkpoint& point) {
  if (!point.total) return;
  detail::require(
      *point.total <= detail::kMostRecords && *point.total >= resident_end(point.sweep),
      "upstream's length does not fit the position");
}

namespace detail {

/// The words that a checkpoint holds only for as long as it is the same.
inline std::vector<std::uint64_t> words_of(const BufferOptions& options) {
  constexpr std::uint64_t kFormat = 3;
  std::vector<std::uint64_t> words{
      kFormat,
      options.automatic,
      options.window,
      options.batch_size,
      options.automatic ? options.max_factor : options.factor.num,
      options.automatic ? 0 : options.factor.den,
      options.seed,
      options.drop_last,
      RecordLayout(options.fields, options.ragged).stride(),
      options.lengths.payload_bytes,
      options.lengths.max_rows,
      options.lengths.pack_to};
  if (options.selects())
    words.insert(words.end(),
                 {options.by_loss, std::bit_cast<std::uint64_t>(options.thin),
                  static_cast<std::uint64_t>(options.max_staleness)});
  return words;
}

inline void add_words(std::vector<std::uint64_t>& words, const FixedSweep& sweep) {
  words.push_back(sweep.pass_done());
  if (sweep.schedule().fractional()) words.push_back(sweep.schedule().phase());
  if (const auto counted = sweep.counted())
    words.insert(words.end(),
                 {counted->draws, counted->oldest_segment, counted->whole_before});
}

inline void add_words(std::vector<std::uint64_t>& words, const OpenRows& rows) {
  words.push_back(rows ? rows->size() : 0);
  if (!rows) return;
  for (const PackedRow& row : *rows)
    words.insert(words.end(), {row.used, row.segments});
}

inline void add_words(std::vector<std::uint64_t>& words, const SelectionState& state) {
  const SavedSelection& pass = state.pass;
  words.insert(words.end(),
               {state.left_out, state.expired, static_cast<std::uint64_t>(state.newest),
                pass.first, pass.marks.size(), pass.uses.size()});
  words.insert(words.end(), pass.marks.begin(), pass.marks.end());
  words.insert(words.end(), pass.uses.begin(), pass.uses.end());
}

inline void add_words(std::vector<std::uint64_t>& words, const AutoSweep& sweep) {
  const AutoSchedule::State& s = sweep.schedule().state();
  words.insert(words.end(), {s.lo, s.hi, s.limit, s.begun, s.waiting});
  for (std::uint64_t i = s.lo; i < s.hi; ++i) words.push_back(sweep.schedule().uses(i));
}

/// Reads words one by one. Throws std::invalid_argument at their end.
class WordReader {
 public:
  explicit WordReader(const std::vector<std::uint64_t>& words) : words_(words) {}
  std::uint64_t next() {
    if (at_ == words_.size()) throw std::invalid_argument("the checkpoint is cut off");
    return words_[at_++];
  }
  bool done() const { return at_ == words_.size(); }

 private:
  const std::vector<std::uint64_t>& words_;
  std::size_t at_ = 0;
};

inline OpenRows read_rows(WordReader& in, std::uint64_t pack_to) {
  std::vector<PackedRow> rows;
  for (std::uint64_t left = in.next(); left > 0; --left) {
    const std::uint64_t used = in.next();
    rows.push_back({used, static_cast<std::uint32_t>(in.next())});
  }
  return checked_rows(std::move(rows), pack_to);
}

inline SelectionState read_selection(WordReader& in) {
  SelectionState state;
  state.left_out = in.next();
  state.expired = in.next();
  state.newest = static_cast<std::int64_t>(in.next());
  SavedSelection& pass = state.pass;
  pass.first = in.next();
  std::uint64_t marks = in.next();
  std::uint64_t uses = in.next();
  for (; marks > 0; --marks) {
    const std::uint64_t mark = in.next();
    require(mark <= 3, "a mark is too large");
    pass.marks.push_back(static_cast<std::uint8_t>(mark));
  }
  for (; uses > 0; --uses) pass.uses.push_back(static_cast<std::uint32_t>(in.next()));
  return state;
}

inline void read_words(WordReader& in, FixedSweep& sweep, const Position& position,
                       std::uint64_t resident_end, std::optional<Entered> entered,
                       bool selects) {
  const bool pass_done = in.next() != 0;
  const bool fractional = sweep.schedule().fractional();
  const std::uint64_t phase = fractional ? in.next() : 0;
  if (entered && fractional) {
    Counted& counted = entered->counted.emplace();
    counted.draws = in.next();
    counted.oldest_segment = in.next();
    counted.whole_before = in.next();
  }
  restore_sweep(sweep, position, pass_done, resident_end, phase, entered, selects);
}

inline void read_words(WordReader& in, AutoSweep& sweep, const Position& position,
                       std::uint64_t resident_end,
                       const std::optional<Entered>& entered, bool /*selects*/) {
  AutoSchedule::State s;
  s.end_record = resident_end;
  s.lo = in.next();
  s.hi = in.next();
  s.limit = in.next();
  s.begun = in.next() != 0;
  s.waiting = in.next() != 0;
  std::vector<std::uint32_t> uses;
  while (!in.done()) {
    const std::uint64_t times = in.next();
    require(times <= std::numeric_limits<std::uint32_t>::max(), "a count is too large");
    uses.push_back(static_cast<std::uint32_t>(times));
  }
  restore_sweep(sweep, position, s, uses, entered);
}

}  // namespace detail

/// The checkpoint, and the options it holds for. Throws std::invalid_argument if it is
/// of a buffer with other ones.
inline std::vector<std::uint64_t> to_words(const Checkpoint& checkpoint,
                                           const BufferOptions& options) {
  if (!walks_alike(checkpoint.sweep, make_sweep(options.checked(), checkpoint.epoch)))
    throw std::invalid_argument("to_words: the checkpoint is of other options");
  std::vector<std::uint64_t> words = detail::words_of(options);
  const auto add = [&](const auto& sweep) {
    const Position at = sweep.position();
    words.insert(words.end(),
                 {checkpoint.epoch, checkpoint.epoch_done, checkpoint.total.has_value(),
                  checkpoint.total.value_or(0), at.pass, at.offset, at.draws,
                  sweep.resident_end(), sweep.oldest_record()});
    if (options.lengths.pack_to > 0) {
      words.push_back(sweep.served_ahead);
      detail::add_words(words, sweep.open_rows);
    }
    if (options.selects() && at.draws > 0) {
      detail::add_words(words, sweep.selection_state().value());
      words.push_back(checkpoint.losses.size());
      for (const float loss : checkpoint.losses)
        words.push_back(std::bit_cast<std::uint32_t>(loss));
    }
    detail::add_words(words, sweep);
  };
  std::visit(add, checkpoint.sweep);
  return words;
}

/// Throws std::invalid_argument if they are damaged, or of a buffer with other options.
inline Checkpoint from_words(const std::vector<std::uint64_t>& words,
                             const BufferOptions& options) {
  detail::WordReader in(words);
  for (const std::uint64_t word : detail::words_of(options))
    if (in.next() != word)
      throw std::invalid_argument("the checkpoint is of a buffer with other options");
  const std::uint64_t epoch = in.next();
  Checkpoint point{epoch, make_sweep(options, epoch), std::nullopt, in.next() != 0};
  const bool has_total = in.next() != 0;
  const std::uint64_t total = in.next();
  if (has_total) point.total = total;
  if (point.epoch_done) return point;  // the next epoch begins at its start
  const Position position{in.next(), in.next(), in.next()};
  const std::uint64_t resident_end = in.next();
  const std::uint64_t oldest = in.next();
  std::optional<Entered> entered;
  if (options.lengths.any()) entered.emplace().oldest = oldest;
  OpenRows rows;
  std::uint64_t served_ahead = 0;
  if (options.lengths.pack_to > 0) {
    served_ahead = in.next();
    rows = detail::read_rows(in, options.lengths.pack_to);
  }
  std::optional<SelectionState> selection;
  if (options.selects() && position.draws > 0) {
    selection = detail::read_selection(in);
    for (std::uint64_t left = in.next(); left > 0; --left)
      point.losses.push_back(
          std::bit_cast<float>(static_cast<std::uint32_t>(in.next())));
  }
  std::visit(
      [&](auto& s) {
        detail::read_words(in, s, position, resident_end, entered, options.selects());
        restore_rows(s, rows, served_ahead);
        if (selection) restore_selection(s, *selection, options.thins());
      },
      point.sweep);
  if (!in.done() || oldest_record(point.sweep) != oldest)
    throw std::invalid_argument("the checkpoint is damaged");
  check_total(point);
  return point;
}

}  // namespace echobuf
