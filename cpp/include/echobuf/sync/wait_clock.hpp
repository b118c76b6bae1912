// The time that threads have spent in some state: one word, no lock; threads that are
// in it at the moment count, too.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "echobuf/sync/event_count.hpp"

namespace echobuf {

inline double to_seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// Nanoseconds of a clock that was started at any time.
inline std::int64_t ns_of(Deadline time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch())
      .count();
}

/// The sum over the threads of the time that each has been in. The word holds how many
/// are in (10 bits), and above it the times of leaving less the times of entering, so
/// that one load tells the sum up to any moment. It wraps at 104 days, and beyond 1,023
/// threads at once it is wrong.
///
/// Everything is relaxed: a statistic orders nothing else, and is read from one word.
class WaitClock {
 public:
  void enter(Deadline now) {
    const std::uint64_t before =
        word_.fetch_add(kOne - shifted(ns_of(now)), std::memory_order_relaxed);
    const std::uint64_t in = (before & kIn) + kOne;
    // Two at once may note the smaller number: the next one to enter corrects it.
    if (in > peak_.load(std::memory_order_relaxed))
      peak_.store(in, std::memory_order_relaxed);
  }

  /// False if no thread is in: it entered before forget().
  bool leave(Deadline now) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    do {
      if ((word & kIn) == 0) return false;
    } while (!word_.compare_exchange_weak(word, word + shifted(ns_of(now)) - kOne,
                                          std::memory_order_relaxed,
                                          std::memory_order_relaxed));
    return true;
  }

  /// Starts from zero; a thread that is in counts from `now`.
  void restart(Deadline now) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(
        word, (word & kIn) - (word & kIn) * shifted(ns_of(now)),
        std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
    peak_.store(word & kIn, std::memory_order_relaxed);
  }

  /// Starts from zero, with no thread in.
  void forget() {
    word_.store(0, std::memory_order_relaxed);
    peak_.store(0, std::memory_order_relaxed);
  }

  /// Nanoseconds up to now.
  std::int64_t total() const {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    const std::uint64_t sum = word + (word & kIn) * shifted(ns_of(Clock::now()));
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(sum & ~kIn) >> kBits);
  }

  /// The most that were in at once; at least 1.
  std::uint64_t peak() const {
    return std::max<std::uint64_t>(1, peak_.load(std::memory_order_relaxed));
  }

  /// The sum as if all threads had been in together: the wall time, if they are alike.
  std::int64_t wall() const { return total() / static_cast<std::int64_t>(peak()); }

  /// Counts its thread as in for as long as it lives.
  class Guard {
   public:
    Guard(WaitClock& clock, Deadline since) : clock_(clock) { clock_.enter(since); }
    ~Guard() { clock_.leave(Clock::now()); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    WaitClock& clock_;
  };

 private:
  static constexpr unsigned kBits = 10;
  static constexpr std::uint64_t kOne = 1;
  static constexpr std::uint64_t kIn = (std::uint64_t{1} << kBits) - 1;

  static std::uint64_t shifted(std::int64_t ns) {
    return static_cast<std::uint64_t>(ns) << kBits;
  }

  std::atomic<std::uint64_t> word_{0};
  std::atomic<std::uint64_t> peak_{0};
};

}  // namespace echobuf
