// The changes of epoch of a buffer: in all of its parts at once, one change at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/buffer/argument_checks.hpp"
#include "echobuf/buffer/draw_path.hpp"
#include "echobuf/buffer/epoch_accounting.hpp"
#include "echobuf/buffer/termination.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/clocks.hpp"

namespace echobuf {

/// The methods that BasicBuffer has under the same names; there they are described.
template <class Ring>
class EpochChanges {
 public:
  /// All must outlive it.
  EpochChanges(const BufferOptions& options, Ring& ring, UpstreamClock& clock,
               Termination<Ring>& termination, EpochAccounting<Ring>& accounting,
               DrawPath<Ring>& draw_path)
      : options_(options),
        ring_(ring),
        clock_(clock),
        termination_(termination),
        accounting_(accounting),
        draw_path_(draw_path) {}

  /// Calls `fail` while a term is open, unless it is over: the next one is left alone.
  /// On return nothing of that term is served any more.
  template <class Fail>
  void fail_in(std::uint64_t term, Fail&& fail) {
    if (draw_path_.is_mine()) {  // the poll of a draw: until it returns, the term stays
      if (ring_.term() == term) fail();
      return;
    }
    while (ring_.term() == term) {
      const std::unique_lock alone(between_epochs_, std::try_to_lock);
      if (alone) {
        if (ring_.term() == term) fail();
        return;
      }
      // A reset gives up what is left, and may wait for who wants to fail this term.
      if (restarting_.load(std::memory_order_acquire)) return;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  Status reset(std::uint64_t epoch, std::uint64_t skipped) {
    if (draw_path_.is_mine()) return Status::kReentrant;
    std::lock_guard alone(between_epochs_);
    Epoch next;
    next.number = epoch;
    restart(next, nullptr, skipped);
    return Status::kOk;
  }

  bool open_ahead(std::uint64_t epoch) {
    std::lock_guard alone(between_epochs_);
    if (!ring_.closed() || termination_.has_failed() || termination_.is_down())
      return false;
    if (accounting_.ahead()) return false;
    // First: who sees it open finds the clock set for it.
    clock_.open_ahead(ring_.tail());
    accounting_.open_ahead(epoch);
    if (termination_.is_down()) ring_.close();  // see restart()
    return true;
  }

  bool go_ahead() {
    if (draw_path_.is_mine()) return false;
    std::lock_guard alone(between_epochs_);
    const std::optional<Epoch> next = accounting_.ahead();
    if (!next) return false;
    const typename DrawPath<Ring>::Pause pause(draw_path_);
    ring_.settle(next->base);
    begin(*next, nullptr, [&] { clock_.go_ahead(); });
    return true;
  }

  bool restore(const Checkpoint& from) {
    if (!from.epoch_done && !walks_alike(from.sweep, make_sweep(options_, from.epoch)))
      argument_checks::refuse("restore",
                              "the checkpoint is of a buffer with other options");
    if (draw_path_.is_mine()) return false;
    std::lock_guard alone(between_epochs_);
    if (ring_.closed() || termination_.has_failed() || !accounting_.untouched())
      return false;
    Epoch next;
    next.number = from.epoch + (from.epoch_done ? 1 : 0);
    if (!from.epoch_done) {
      next.origin = oldest_record(from.sweep);
      next.required_end = resident_end(from.sweep);
      next.total = from.total;
    }
    restart(next, from.epoch_done ? nullptr : &from.sweep);
    return true;
  }

 private:
  /// In a pause: everything is in the epoch `next` from now on.
  template <class Open>
  void begin(const Epoch& next, const Sweep* from, Open&& open) {
    draw_path_.go_over(next, from, [&](const Sweep& start) {
      accounting_.begin(next, start, std::forward<Open>(open));
    });
  }

  /// Ends the epoch as it stands, and begins `next` at its start or at `from`.
  void restart(Epoch next, const Sweep* from, std::uint64_t skipped = 0) {
    const typename DrawPath<Ring>::Pause pause(draw_path_);
    // Release: pairs with fail_in(); in the pause nothing of this term is served.
    restarting_.store(true, std::memory_order_release);
    ring_.close();
    ring_.settle(ring_.tail());
    if (skipped > 0) {
      ring_.skip(skipped);
      ring_.settle(ring_.tail());
    }
    next.base = ring_.tail();
    begin(next, from, [&] {
      // Relaxed: a thread that sees it sees the lock taken, or the next term.
      restarting_.store(false, std::memory_order_relaxed);
      termination_.forget_failure();
      clock_.begin(next.base);
      // Looked at after the exchange in reopen(): a close() that came before is undone
      // by it, but then what led to that close() is seen here.
      if (!termination_.is_down()) ring_.reopen();
      if (termination_.is_down() || termination_.has_failed() ||
          termination_.is_broken())
        ring_.close();
    });
  }

  const BufferOptions& options_;
  Ring& ring_;
  UpstreamClock& clock_;
  Termination<Ring>& termination_;
  EpochAccounting<Ring>& accounting_;
  DrawPath<Ring>& draw_path_;
  std::mutex between_epochs_;            // one change of epoch at a time
  std::atomic<bool> restarting_{false};  // the term that is open is given up
};

}  // namespace echobuf
