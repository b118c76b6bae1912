// Waiting for another thread without a lock on the fast path, and without burning a
// core: a futex on Linux, a condition variable elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#else
#include <condition_variable>
#include <mutex>
#endif

namespace echobuf {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// An event count: a condition variable without a mutex.
/// The waiter calls prepare(), looks at its condition again, and calls wait() with the
/// key; the other side changes the condition and then calls notify(). Both sides do a
/// read-modify-write on the same word, so either the notifier sees the waiter's mark,
/// or the waiter's second look sees the changed condition: no wake-up is lost, and no
/// sequentially consistent fence is needed.
class EventCount {
 public:
  /// `shared`: with other processes, in memory that they share (Linux alone).
  explicit EventCount([[maybe_unused]] bool shared = false)
#ifdef __linux__
      : scope_(shared ? 0 : FUTEX_PRIVATE_FLAG)
#endif
  {
  }

  /// Acquire: pairs with the release in announce(); what was changed before is seen by
  /// the look that follows.
  std::uint32_t prepare() {
    return word_.fetch_or(kWaiting, std::memory_order_acq_rel) | kWaiting;
  }

  /// Publishes a change; true if a thread may be asleep: the caller must then wake it.
  /// Release: pairs with the acquire in prepare().
  [[nodiscard]] bool announce() {
    return word_.fetch_add(kStep, std::memory_order_acq_rel) & kWaiting;
  }

  void wake();

  void notify() {
    if (announce()) wake();
  }

  /// Sleeps until notified after prepare() or until the deadline. May return early.
  void wait(std::uint32_t key, Deadline deadline);

 private:
  static constexpr std::uint32_t kWaiting = 1;
  static constexpr std::uint32_t kStep = 2;

  std::atomic<std::uint32_t> word_{0};
#ifdef __linux__
  const int scope_;
#else
  std::mutex mutex_;
  std::condition_variable woken_;
#endif
};

#ifdef __linux__

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the futex word is the atomic itself");

inline void EventCount::wake() {
  // Relaxed: the change was published by announce(); a waiter that prepares in between
  // finds another word than its key and looks again.
  word_.fetch_and(~kWaiting, std::memory_order_relaxed);
  syscall(SYS_futex, &word_, FUTEX_WAKE | scope_, INT_MAX, nullptr, nullptr, 0);
}

inline void EventCount::wait(std::uint32_t key, Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
  if (left.count() <= 0) return;
  timespec time{};
  time.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
  syscall(SYS_futex, &word_, FUTEX_WAIT | scope_, key, &time, nullptr, 0);
}

#else

inline void EventCount::wake() {
  {
    std::lock_guard lock(mutex_);
    word_.fetch_and(~kWaiting, std::memory_order_relaxed);
  }
  woken_.notify_all();
}

inline void EventCount::wait(std::uint32_t key, Deadline deadline) {
  std::unique_lock lock(mutex_);
  woken_.wait_until(lock, deadline,
                    [&] { return word_.load(std::memory_order_relaxed) != key; });
}

#endif

}  // namespace echobuf
