// Claimed positions that others write, and the waits for room to claim more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "echobuf/sync/wait_clock.hpp"

namespace echobuf {

/// Positions that were claimed and are not committed. The claimer hands work out and
/// does not do it: a wait for room is upstream's only while nothing is outstanding.
class OutstandingClaims {
 public:
  explicit OutstandingClaims(WaitClock& waits) : waits_(waits) {}

  /// A statistic.
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  /// Relaxed, here and below: a thread that crosses zero looks again with the lock.
  void add(std::uint64_t n) {
    if (count_.fetch_add(n, std::memory_order_relaxed) == 0) look(Clock::now());
  }

  void take_off(std::uint64_t n) {
    if (count_.fetch_sub(n, std::memory_order_relaxed) == n) look(Clock::now());
  }

  /// Waits for room, for as long as it lives.
  class Wait {
   public:
    Wait(OutstandingClaims& of, Deadline since) : of_(of) { of_.wait(+1, since); }
    ~Wait() { of_.wait(-1, Clock::now()); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    OutstandingClaims& of_;
  };

 private:
  void look(Deadline now) {
    const std::lock_guard lock(mutex_);
    look_locked(now);
  }

  void wait(int change, Deadline now) {
    const std::lock_guard lock(mutex_);
    waiting_ += change;
    look_locked(now);
  }

  void look_locked(Deadline now) {
    const bool idle = waiting_ > 0 && count() == 0;
    if (idle == counted_.has_value()) return;
    if (idle)
      counted_.emplace(waits_, now);
    else
      counted_.reset();
  }

  WaitClock& waits_;
  std::atomic<std::uint64_t> count_{0};
  std::mutex mutex_;  // guards what follows
  int waiting_ = 0;
  std::optional<WaitClock::Guard> counted_;
};

}  // namespace echobuf
