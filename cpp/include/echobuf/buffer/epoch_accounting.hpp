// The accounting of epochs: which one is served, how much of it has been handed out,
// and which one is open for upstream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>

#include "echobuf/buffer/stats.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"

namespace echobuf {

/// The position of the batches handed out so far: enough to go on from there.
struct Checkpoint {
  std::uint64_t epoch;
  Sweep sweep;
  std::optional<std::uint64_t> total;  // length of upstream, once it has ended
  bool epoch_done;  // nothing is left to serve: restore() begins the next one

  /// The oldest fresh example still needed: what to put first after restore(), of the
  /// epoch that the buffer is then in.
  std::uint64_t fresh_offset() const { return epoch_done ? 0 : oldest_record(sweep); }
};

/// Each call takes one lock, and calls that change the epoch change the
/// ring under it: so the accounting and the ring always agree.
template <class Ring>
class EpochAccounting {
 public:
  EpochAccounting(const BufferOptions& options, Ring& ring, Sweep start)
      : options_(options), ring_(ring), handed_(std::move(start)) {
    epoch_.number = options.epoch;
    epoch_.base = ring.tail();
  }

  /// A batch has been handed out, and the schedule has reached `after`.
  void hand_out(const Sweep& after) {
    std::lock_guard lock(mutex_);
    handed_ = after;
  }

  /// A caller has heard that there are no more batches. Where rows are packed, the
  /// draws that are left do not tell. `expired`: draws that were given up.
  void note_end(std::uint64_t expired) {
    std::lock_guard lock(mutex_);
    ended_ = options_.lengths.packs();
    expired_ = expired;
  }

  /// `failed`: the epoch's upstream has, so where it ends is not known.
  Checkpoint checkpoint(bool failed) {
    std::lock_guard lock(mutex_);
    Checkpoint point{epoch_.number, handed_, epoch_.total, false};
    std::optional<std::uint64_t> n = failed ? std::nullopt : length();
    // A loaded state knows where upstream ends, before it says so again.
    if (!failed && !n && epoch_.total && epoch_.record(ring_.tail()) == *epoch_.total)
      n = epoch_.total;
    // Every claim is committed soon, and the end is where claims end.
    if (n && *n >= epoch_.required_end && (!epoch_.total || *epoch_.total == *n)) {
      point.total = n;
      const std::uint64_t left =
          std::visit([&](const auto& s) { return s.remaining(*n); }, handed_);
      const bool last = std::visit([](const auto& s) { return s.last; }, handed_);
      point.epoch_done =
          left == 0 || last || ended_ ||
          (options_.drop_last && is_exact(*n) && left < options_.batch_size);
    }
    return point;
  }

  /// Fresh examples, draws and passes.
  BufferStats stats() {
    std::lock_guard lock(mutex_);
    BufferStats stats;
    stats.fresh = length().value_or(epoch_.record(ring_.tail()));
    stats.served = served(handed_);
    stats.expired = std::max(
        expired_, std::visit([](const auto& s) { return s.expired(); }, handed_));
    stats.passes = std::visit([](const auto& s) { return s.passes_begun(); }, handed_);
    return stats;
  }

  /// The oldest fresh example that the batches to come need.
  std::uint64_t oldest_needed() {
    std::lock_guard lock(mutex_);
    return oldest_record(handed_);
  }

  /// Draws since the epoch began, or went on from a checkpoint.
  std::uint64_t draws_here() {
    std::lock_guard lock(mutex_);
    return served(handed_) - served_before_;
  }

  /// True if nothing was put or handed out in this epoch, or in one loaded.
  bool untouched() {
    std::lock_guard lock(mutex_);
    return ring_.tail() == epoch_.base && epoch_.origin == 0 && draws(handed_) == 0;
  }

  /// True once upstream has ended and all that it put has entered the window.
  bool draining() {
    std::lock_guard lock(mutex_);
    const std::optional<std::uint64_t> n = length();
    return n && *n <= resident_end(handed_);
  }

  /// Opens the next epoch for upstream, whose last one has ended; none may be open.
  void open_ahead(std::uint64_t number) {
    std::lock_guard lock(mutex_);
    ahead_.emplace();
    ahead_->number = number;
    ahead_->base = ring_.tail();
    ring_.reopen_ahead();
  }
  std::optional<Epoch> ahead() {
    std::lock_guard lock(mutex_);
    return ahead_;
  }

  /// The epoch `next` is served from now on, from the schedule `start`. `open` opens it
  /// for upstream if that is still to be done.
  template <class Open>
  void begin(const Epoch& next, const Sweep& start, Open&& open) {
    std::lock_guard lock(mutex_);
    epoch_ = next;
    ahead_.reset();
    handed_ = start;
    served_before_ = served(start);
    ended_ = false;
    expired_ = 0;
    ring_.release(next.base);
    ring_.clear_held_back();
    std::forward<Open>(open)();
    // Last: a failure that `open` forgets was perhaps that of an epoch opened ahead.
    ring_.cross_border();
  }

 private:
  /// True if no more draws are left of n records than is known, and batches have as
  /// many records as `batch_size` says.
  bool is_exact(std::uint64_t n) const {
    const auto* fixed = std::get_if<FixedSweep>(&handed_);
    return options_.lengths.max_rows == 0 && !options_.expires() &&
           (!fixed || !fixed->counted() || fixed->resident_end() == n);
  }

  /// The number of fresh examples of the epoch, once upstream has ended.
  std::optional<std::uint64_t> length() const {
    const std::optional<std::uint64_t> end = ring_.end();
    if (!end) return std::nullopt;
    return epoch_.record(*end);
  }

  const BufferOptions& options_;
  Ring& ring_;
  std::mutex mutex_;  // guards what follows
  Epoch epoch_;
  std::optional<Epoch> ahead_;       // open for upstream already
  Sweep handed_;                     // the schedule after the last batch handed out
  bool ended_ = false;               // see note_end()
  std::uint64_t expired_ = 0;        // the same
  std::uint64_t served_before_ = 0;  // a checkpoint was taken
};

}  // namespace echobuf
