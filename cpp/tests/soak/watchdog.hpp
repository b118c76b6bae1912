// Sees to it that a hang, or anything wrong, ends with what is needed to repeat it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace echobuf::soak {

class Watchdog {
 public:
  /// No correct wait is as long, under a sanitizer on a busy machine either.
  static constexpr auto kHang = std::chrono::seconds(30);

  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(std::string what) {
    const std::lock_guard lock(mutex_);
    what_ = std::move(what);
    alive();
  }
  /// Whoever gets something done says so.
  void alive() { steps_.fetch_add(1, std::memory_order_relaxed); }

  /// Ends the process. Not by exit(): other threads are at work.
  [[noreturn]] void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    say(why);
  }

 private:
  [[noreturn]] void say(const std::string& why) {
    std::cerr << "FAILED: " << why << "\nin " << what_ << std::endl;
    _exit(1);
  }

  void watch() {
    std::unique_lock lock(mutex_);
    std::uint64_t seen = steps_.load(std::memory_order_relaxed);
    while (!changed_.wait_for(lock, kHang, [this] { return stopped_; })) {
      const std::uint64_t now = steps_.load(std::memory_order_relaxed);
      if (now == seen) say("nothing happened for 30 seconds: a hang");
      seen = now;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  std::atomic<std::uint64_t> steps_{0};
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace echobuf::soak
