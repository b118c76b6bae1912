// A small program on what a server with worker processes does when it revokes what it
// submitted: WorkerPool::revoke(), SharedRing::publish() and SharedRing::fail().
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "pool_world.hpp"

namespace echobuf::model {

/// The order of the thread that revokes; the first is what WorkerPool::revoke() does.
enum class Stop { kFirst, kLast, kNever };

struct RevokePlan : PoolPlan {
  Stop stop = Stop::kFirst;
  bool looks_first = false;  // the publisher looks whether to stop before it looks
};

/// Thread 0 is a worker, 1 commits what is marked as done, 2 publishes, 3 revokes. As
/// the ring, publisher and job are one: a job reads what is published at once.
class RevokeAndPublish : public PoolWorld<1, 2> {
 public:
  static constexpr int kThreads = 4;

  explicit RevokeAndPublish(const RevokePlan& plan) : PoolWorld(plan), plan_(plan) {
    ring_.claim(plan.items, ring_.term());
    for (std::uint64_t i = 0; i < plan.items; ++i) offer(i);
  }

  void run(int thread) {
    switch (thread) {
      case 0:
        return work();
      case 1:
        return collect_all();
      case 2:
        return publish();
      default:
        return revoke();
    }
  }

  void end() {
    check(oldest_.load(std::memory_order_relaxed) == plan_.items,
          "all is committed: the next epoch, and who settles, wait for it");
    check(ring_.closed(), "the term has ended");
    outcome(published_);
  }

 private:
  /// Until nobody has another item for it.
  void work() {
    for (;;) {
      while (!hold_.has_room()) pause();
      if (!hold_.take()) return;
      make(hold_);
    }
  }

  void collect_all() {
    while (oldest_.load(std::memory_order_acquire) < plan_.items) {
      bool any = false;
      {
        const std::lock_guard collecting(collecting_);
        any = collect(0);
      }
      if (!any) pause();
    }
  }

  /// SharedRing::publish(), and the job that reads it.
  void publish() {
    while (published_ < plan_.items) {
      if (plan_.looks_first && halted_.load(std::memory_order_acquire)) return;
      const std::uint64_t end = ring_.committed();
      if (!plan_.looks_first && halted_.load(std::memory_order_acquire)) return;
      if (end == published_) pause();
      for (; published_ < end; ++published_)
        check(slots_[published_] == 1 + published_,
              "a slot is published that nobody wrote");
    }
  }

  /// WorkerPool::revoke(), with Collector::revoke().
  void revoke() {
    if (plan_.stop == Stop::kFirst) halted_.store(true, std::memory_order_release);
    ring_.close();
    {
      const std::lock_guard collecting(collecting_);
      board_.revoked.store(plan_.items, std::memory_order_release);
      for (auto n = oldest_.load(std::memory_order_acquire); n < plan_.items; ++n)
        if (board_.at(n).item.take(n, workers::Taken::kTrainer)) finish(n, n);
    }
    if (plan_.stop == Stop::kLast) halted_.store(true, std::memory_order_release);
  }

  const RevokePlan plan_;
  Hold hold_{board_, queues_[0], 0};
  std::mutex collecting_;
  std::uint64_t published_ = 0;  // of the publisher
  std::atomic<bool> halted_{false};
};

}  // namespace echobuf::model
