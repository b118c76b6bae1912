// A checkpoint as a list of integers, to be kept in a file: and back, checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <variant>
#include <vector>

#include "echobuf/buffer.hpp"

namespace echobuf {

/// Puts a walk where it was. Throws std::invalid_argument where it cannot have been.
inline void restore_sweep(FixedSweep& sweep, const Position& position, bool pass_done,
                          std::uint64_t resident_end) {
  const std::uint64_t first = sweep.schedule().oldest_record(position.pass);
  if (position.draws > 0 &&
      (resident_end < first || position.offset > resident_end - first))
    throw std::invalid_argument("the position lies outside its pass");
  sweep.restore(position, pass_done, resident_end);
}

/// `uses`: of the segments in the window, the oldest first.
inline void restore_sweep(AutoSweep& sweep, const Position& position,
                          AutoSchedule::State state,
                          const std::vector<std::uint32_t>& uses) {
  if (state.hi < state.lo || state.hi - state.lo > AutoSchedule::kMaxSegments ||
      uses.size() != state.hi - state.lo)
    throw std::invalid_argument("the window has too many segments");
  state.pass = position.pass;
  for (std::uint64_t i = state.lo; i < state.hi; ++i)
    state.uses[i % AutoSchedule::kMaxSegments] = uses[i - state.lo];
  sweep.restore(state, position);
  if (position.offset > sweep.schedule().span().count)
    throw std::invalid_argument("the position lies outside its pass");
}

namespace detail {

/// What a checkpoint holds only for as long as it is the same.
inline std::vector<std::uint64_t> words_of(const BufferOptions& options) {
  constexpr std::uint64_t kFormat = 2;
  return {kFormat,
          options.automatic,
          options.window,
          options.batch_size,
          options.automatic ? options.max_factor : options.factor.num,
          options.automatic ? 0 : options.factor.den,
          options.seed,
          options.drop_last,
          RecordLayout(options.fields, options.ragged).stride()};
}

inline void add_words(std::vector<std::uint64_t>& words, const FixedSweep& sweep) {
  words.push_back(sweep.pass_done());
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

inline void read_words(WordReader& in, FixedSweep& sweep, const Position& position,
                       std::uint64_t resident_end) {
  restore_sweep(sweep, position, in.next() != 0, resident_end);
}

inline void read_words(WordReader& in, AutoSweep& sweep, const Position& position,
                       std::uint64_t resident_end) {
  AutoSchedule::State s;
  s.end_record = resident_end;
  s.lo = in.next();
  s.hi = in.next();
  s.limit = in.next();
  s.begun = in.next() != 0;
  s.waiting = in.next() != 0;
  std::vector<std::uint32_t> uses;
  while (!in.done()) uses.push_back(static_cast<std::uint32_t>(in.next()));
  restore_sweep(sweep, position, s, uses);
}

}  // namespace detail

/// The checkpoint, and the options it holds for.
inline std::vector<std::uint64_t> to_words(const Checkpoint& checkpoint,
                                           const BufferOptions& options) {
  std::vector<std::uint64_t> words = detail::words_of(options);
  const auto add = [&](const auto& sweep) {
    const Position at = sweep.position();
    words.insert(words.end(),
                 {checkpoint.epoch, checkpoint.epoch_done, checkpoint.total.has_value(),
                  checkpoint.total.value_or(0), at.pass, at.offset, at.draws,
                  sweep.resident_end(), sweep.oldest_record()});
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
  Checkpoint point{in.next(), make_sweep(options), std::nullopt, in.next() != 0};
  const bool has_total = in.next() != 0;
  const std::uint64_t total = in.next();
  if (has_total) point.total = total;
  if (point.epoch_done) return point;  // the next epoch begins at its start
  const Position position{in.next(), in.next(), in.next()};
  const std::uint64_t resident_end = in.next();
  const std::uint64_t oldest = in.next();
  std::visit([&](auto& s) { detail::read_words(in, s, position, resident_end); },
             point.sweep);
  if (!in.done() || oldest_record(point.sweep) != oldest)
    throw std::invalid_argument("the checkpoint is damaged");
  return point;
}

}  // namespace echobuf
