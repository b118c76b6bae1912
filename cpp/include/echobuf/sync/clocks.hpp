// The time that upstream takes by itself for a fresh example, and downstream for a
// draw.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>

#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_clock.hpp"

namespace echobuf {

/// Seconds that are not known yet.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

inline double seconds_each(std::int64_t ns, std::uint64_t count) {
  return count > 0 ? to_seconds(ns) / static_cast<double>(count) : kUnknown;
}

/// Times of an epoch's upstream.
struct UpstreamSpan {
  std::uint64_t base = 0;
  std::uint64_t first_end = 0;  // where what arrived first ends: it took no time
  std::optional<Deadline> begun;
  std::optional<Deadline> ended;
  std::int64_t held_before_ns = 0;  // before the first arrival
  std::int64_t held_ns = 0;         // until the end
  std::int64_t wait_ns = 0;         // once the next epoch was opened ahead
};

/// Upstream's own time: from the first arrival of an epoch until upstream ends, or
/// until now, less the time that producers waited for room. A put reads no clock, but
/// for the first of an epoch and those that wait.
class UpstreamClock {
 public:
  struct Reading {
    double each_s;  // for a fresh example
    double wait_s;  // of all producers
  };

  /// Examples up to ring position `end` are there; to be called before they are
  /// committed, so that they belong to the epoch that they were put in.
  void arrived(std::uint64_t end) {
    // Relaxed: the lock decides. A producer that puts in an epoch has seen it open, and
    // it was opened after the flag was cleared.
    if (!going_.load(std::memory_order_relaxed)) set_going(end);
  }

  /// For as long as a producer waits for room.
  WaitClock& waits() { return waits_; }

  /// Upstream has ended, or failed.
  void close() {
    std::lock_guard lock(mutex_);
    Span& open = ahead_ ? *ahead_ : here_;
    if (!open.ended) end(open);
  }

  /// To be called before what comes from ring position `base` on can be put, for the
  /// next epoch: while this one is served out.
  void open_ahead(std::uint64_t base) {
    std::lock_guard lock(mutex_);
    if (!here_.ended) end(here_);
    here_.wait_ns = waits_.total();
    ahead_.emplace();
    set_out(*ahead_, base);
  }

  /// Goes over to the epoch that was opened ahead.
  void go_ahead() {
    std::lock_guard lock(mutex_);
    if (ahead_) here_ = *ahead_;
    ahead_.reset();
  }

  /// Another epoch, at ring position `base`; to be called before it is opened.
  void begin(std::uint64_t base) {
    std::lock_guard lock(mutex_);
    ahead_.reset();
    here_ = {};
    set_out(here_, base);
  }

  /// `end`: the ring position that this epoch's upstream has reached.
  Reading read(std::uint64_t end) const {
    std::lock_guard lock(mutex_);
    const std::int64_t wait_ns = ahead_ ? here_.wait_ns : waits_.total();
    if (!here_.begun || end <= here_.first_end) return {kUnknown, to_seconds(wait_ns)};
    const std::int64_t held = here_.ended ? here_.held_ns : waits_.wall();
    const std::int64_t wall =
        ns_of(here_.ended ? *here_.ended : Clock::now()) - ns_of(*here_.begun);
    const std::int64_t own =
        std::max<std::int64_t>(0, wall - (held - here_.held_before_ns));
    return {seconds_each(own, end - here_.first_end), to_seconds(wait_ns)};
  }

 private:
  using Span = UpstreamSpan;

  void set_out(Span& span, std::uint64_t base) {
    span.base = base;
    waits_.restart(Clock::now());
    going_.store(false, std::memory_order_relaxed);
  }

  void end(Span& span) {
    span.ended = Clock::now();
    span.held_ns = waits_.wall();
  }

  void set_going(std::uint64_t end) {
    std::lock_guard lock(mutex_);
    Span& open = ahead_ ? *ahead_ : here_;
    if (open.begun || end <= open.base) return;
    open.begun = Clock::now();
    open.first_end = end;
    open.held_before_ns = waits_.wall();
    going_.store(true, std::memory_order_relaxed);
  }

  WaitClock waits_;
  std::atomic<bool> going_{false};
  mutable std::mutex mutex_;  // guards what follows
  Span here_;                 // of the epoch that is served
  std::optional<Span> ahead_;
};

/// Downstream's own time: from each return with a batch until the next call.
class DownstreamClock {
 public:
  struct Reading {
    double each_s;  // for a draw
    double wait_s;  // of all consumers
    double wait_share;
  };

  /// A call for a batch, while it lives. It reads the clock twice.
  class Call {
   public:
    explicit Call(DownstreamClock& clock) : clock_(clock) {
      if (clock_.own_.leave(start_) && !clock_.came_back_.load(kRelaxed))
        clock_.came_back_.store(true, kRelaxed);
    }
    ~Call() {
      const Deadline now = Clock::now();
      clock_.in_calls_.fetch_add(ns_of(now) - ns_of(start_), kRelaxed);
      if (handed_out_) clock_.own_.enter(now);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    void handed_out() { handed_out_ = true; }

   private:
    DownstreamClock& clock_;
    const Deadline start_ = Clock::now();
    bool handed_out_ = false;
  };

  /// For as long as a consumer waits.
  WaitClock& waits() { return waits_; }

  /// Another epoch; who has a batch of the last one is not waited for.
  void begin() {
    own_.forget();
    waits_.restart(Clock::now());
    in_calls_.store(0, kRelaxed);
    came_back_.store(false, kRelaxed);
  }

  /// `draws`: handed out in this epoch.
  Reading read(std::uint64_t draws) const {
    const std::int64_t own = own_.total();
    const std::int64_t waited = waits_.total();
    // A wait that goes on is no part of a call that has returned.
    const std::int64_t all = own + std::max(waited, in_calls_.load(kRelaxed));
    const bool known = came_back_.load(kRelaxed);
    return {known ? seconds_each(own_.wall(), draws) : kUnknown, to_seconds(waited),
            all > 0 ? to_seconds(waited) / to_seconds(all) : 0.0};
  }

 private:
  // Statistics, which order nothing else and are each whole by themselves.
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  WaitClock own_;
  WaitClock waits_;
  std::atomic<std::int64_t> in_calls_{0};  // nanoseconds, of calls that returned
  std::atomic<bool> came_back_{false};     // a consumer, for another batch
};

}  // namespace echobuf
