// The lock of the thread that draws. Not a mutex: a draw can last as long as a large
// copy, and other threads must be able to wait with a deadline, or to give up.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "echobuf/sync/event_count.hpp"

namespace echobuf {

class DrawLock {
 public:
  class Guard {
   public:
    /// Takes the lock if it is free.
    Guard(DrawLock& lock, std::try_to_lock_t) : draw_lock_(lock), mine_(lock.take()) {}

    /// Waits for the lock.
    explicit Guard(DrawLock& lock) : draw_lock_(lock), mine_(lock.take()) {
      while (!mine_) {
        const std::uint32_t key = lock.event_.prepare();
        mine_ = lock.take();
        if (mine_) break;
        lock.event_.wait(key, Clock::now() + std::chrono::milliseconds(50));
        mine_ = lock.take();
      }
    }
    ~Guard() {
      if (mine_) draw_lock_.give_back();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

    explicit operator bool() const { return mine_; }

   private:
    DrawLock& draw_lock_;
    bool mine_;
  };

  EventCount& event() { return event_; }

  /// True if this thread has the lock: to wait for it would last for ever.
  bool is_mine() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  // Acquire pairs with the release in give_back(): what the last one did is seen.
  bool take() {
    if (taken_.exchange(true, std::memory_order_acquire)) return false;
    // Relaxed, here and below: a thread asks for its own id alone, and sees what it
    // stored last itself.
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return true;
  }
  void give_back() {
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    taken_.store(false, std::memory_order_release);
    event_.notify();
  }

  std::atomic<bool> taken_{false};
  std::atomic<std::thread::id> owner_{};
  EventCount event_;
};

}  // namespace echobuf
