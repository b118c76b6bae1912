// Walking along a schedule: which records the next draws come from. Small values, so a
// walk can be tried on a copy and thrown away.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "echobuf/options.hpp"
#include "echobuf/schedule/auto_sweep.hpp"
#include "echobuf/schedule/fixed_sweep.hpp"

namespace echobuf {

using Sweep = std::variant<FixedSweep, AutoSweep>;

/// The walk from the start of an epoch.
inline Sweep make_sweep(const BufferOptions& options, std::uint64_t epoch) {
  if (options.automatic) {
    // A batch of packed rows is no number of records.
    const std::uint64_t batch = options.lengths.packs() ? 1 : options.batch_size;
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
