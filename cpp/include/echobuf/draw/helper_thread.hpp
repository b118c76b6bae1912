// A thread that takes a share of a large copy while a consumer waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "echobuf/cores.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Starts when it is first wanted, where the process may use two cores, and sleeps
/// between two calls of share(). Once it has lost its core in the middle of a chunk,
/// and kept the caller waiting, it rests for a while: the machine is busy. All that the
/// two threads share is under one lock, taken once a chunk; the work itself is outside
/// it. It never touches Python.
class HelperThread {
 public:
  /// `wanted`: whether a core is free; asked before each chunk until it is.
  explicit HelperThread(std::function<bool()> wanted) : wanted_(std::move(wanted)) {}
  ~HelperThread() { stop(); }
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// Calls `work(i)` once for each i below `chunks`, here and, when wanted, on the
  /// thread. What all calls wrote is seen here on return, but for non-temporal stores,
  /// which a call that makes them must fence. `work` does not throw. One caller at a
  /// time.
  template <class Work>
  void share(std::uint64_t chunks, const Work& work) {
    const std::function<void(std::uint64_t)> call = std::ref(work);
    std::unique_lock lock(mutex_);
    work_ = &call;
    left_ = chunks;
    if (resting_ > 0) --resting_;
    while (left_ > 0) {
      if (!invited_ && resting_ == 0 && wanted_()) invite();
      do_one(lock);
    }
    invited_ = false;  // a thread that has not come yet is not waited for
    if (!working_) return;
    const Deadline since = Clock::now();
    idle_.wait(lock, [&] { return !working_; });
    if (Clock::now() - since > kLate) resting_ = kRest;
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      invitation_.notify_one();
    }
    std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  static constexpr auto kLate = std::chrono::microseconds(500);
  static constexpr int kRest = 100;  // calls of share()

  /// With the lock. Where the system refuses a thread, the caller goes on alone.
  void invite() {
    if (refused_) return;
    try {
      if (!thread_.joinable()) {
        refused_ = usable_cores() < 2;
        if (refused_) return;
        thread_ = std::thread([this] { run(); });
      }
    } catch (const std::exception&) {
      refused_ = true;
      return;
    }
    invited_ = true;
    invitation_.notify_one();
  }

  /// Takes a chunk, the last ones first, and does it without the lock.
  void do_one(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t chunk = --left_;
    const auto& work = *work_;
    lock.unlock();
    work(chunk);
    lock.lock();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      invitation_.wait(lock, [&] { return stopped_ || invited_; });
      if (stopped_) return;
      working_ = true;
      while (left_ > 0) do_one(lock);
      working_ = invited_ = false;
      idle_.notify_one();
    }
  }

  const std::function<bool()> wanted_;
  std::mutex mutex_;
  std::mutex joining_;  // stop() may be called by several
  std::condition_variable invitation_;
  std::condition_variable idle_;
  const std::function<void(std::uint64_t)>* work_ = nullptr;
  std::uint64_t left_ = 0;  // chunks that nobody has taken
  int resting_ = 0;
  bool invited_ = false;
  bool working_ = false;
  bool refused_ = false;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace echobuf
