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
#include "echobuf/buffer/checkpoint_checks.hpp"

namespace echobuf {
namespace detail {

/// The words of format 3 that once said how passes went by losses: not at all.
inline constexpr std::uint64_t kNoLosses = 0;
inline constexpr std::uint64_t kThin = std::bit_cast<std::uint64_t>(0.5);

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
      RecordLayout(options.fields).stride(),
      options.lengths.payload_bytes,
      options.lengths.max_rows,
      options.lengths.row_length()};
  if (options.expires())
    words.insert(words.end(),
                 {kNoLosses, kThin, static_cast<std::uint64_t>(options.max_staleness)});
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
               {state.expired, state.expired, static_cast<std::uint64_t>(state.newest),
                pass.first, pass.marks.size(), kNoLosses});
  words.insert(words.end(), pass.marks.begin(), pass.marks.end());
  words.push_back(kNoLosses);
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

inline OpenRows read_rows(WordReader& in, std::uint64_t row_length) {
  std::vector<PackedRow> rows;
  for (std::uint64_t left = in.next(); left > 0; --left) {
    const std::uint64_t used = in.next();
    rows.push_back({used, static_cast<std::uint32_t>(in.next())});
  }
  return checked_rows(std::move(rows), row_length);
}

inline SelectionState read_selection(WordReader& in) {
  SelectionState state;
  state.expired = in.next();
  require(in.next() == state.expired, "more was left out than has expired");
  state.newest = static_cast<std::int64_t>(in.next());
  SavedSelection& pass = state.pass;
  pass.first = in.next();
  std::uint64_t marks = in.next();
  require(in.next() == kNoLosses, "uses are counted");
  for (; marks > 0; --marks) {
    const std::uint64_t mark = in.next();
    require(mark <= 1, "a mark is too large");
    pass.marks.push_back(static_cast<std::uint8_t>(mark));
  }
  require(in.next() == kNoLosses, "there are losses");
  return state;
}

inline void read_words(WordReader& in, FixedSweep& sweep, const Position& position,
                       std::uint64_t resident_end, std::optional<Entered> entered,
                       bool expires) {
  const bool pass_done = in.next() != 0;
  const bool fractional = sweep.schedule().fractional();
  const std::uint64_t phase = fractional ? in.next() : 0;
  if (entered && fractional) {
    Counted& counted = entered->counted.emplace();
    counted.draws = in.next();
    counted.oldest_segment = in.next();
    counted.whole_before = in.next();
  }
  restore_sweep(sweep, position, pass_done, resident_end, phase, entered, expires);
}

inline void read_words(WordReader& in, AutoSweep& sweep, const Position& position,
                       std::uint64_t resident_end,
                       const std::optional<Entered>& entered, bool /*expires*/) {
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
  if (!walks_alike(checkpoint.sweep, make_sweep(checked(options), checkpoint.epoch)))
    throw std::invalid_argument("to_words: the checkpoint is of other options");
  std::vector<std::uint64_t> words = detail::words_of(options);
  const auto add = [&](const auto& sweep) {
    const Position at = sweep.position();
    words.insert(words.end(),
                 {checkpoint.epoch, checkpoint.epoch_done, checkpoint.total.has_value(),
                  checkpoint.total.value_or(0), at.pass, at.offset, at.draws,
                  sweep.resident_end(), sweep.oldest_record()});
    if (options.lengths.packs()) {
      words.push_back(sweep.served_ahead);
      detail::add_words(words, sweep.open_rows);
    }
    if (options.expires() && at.draws > 0)
      detail::add_words(words, sweep.selection_state().value());
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
  if (options.lengths.packs()) {
    served_ahead = in.next();
    rows = detail::read_rows(in, options.lengths.row_length());
  }
  std::optional<SelectionState> selection;
  if (options.expires() && position.draws > 0) selection = detail::read_selection(in);
  std::visit(
      [&](auto& s) {
        detail::read_words(in, s, position, resident_end, entered, options.expires());
        restore_rows(s, rows, served_ahead);
        if (selection) restore_selection(s, *selection);
      },
      point.sweep);
  if (!in.done() || oldest_record(point.sweep) != oldest)
    throw std::invalid_argument("the checkpoint is damaged");
  check_total(point);
  return point;
}

}  // namespace echobuf
