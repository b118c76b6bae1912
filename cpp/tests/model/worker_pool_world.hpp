// Small programs on how examples pass through a pool of workers: the trainer offers
// items, workers take them and write slots, a thread of the trainer commits them.
#pragma once

#include <atomic>
#include <cstdint>

#include "pool_world.hpp"

namespace echobuf::model {

/// Thread 0 offers items and waits until they are committed, 1 is the worker, 2
/// commits. The board has one place, so that the second item takes that of the first.
class OfferAndSettle : public PoolWorld<1, 1> {
 public:
  static constexpr int kThreads = 3;
  using PoolWorld::PoolWorld;

  void run(int thread) {
    if (thread == 0) return offer_and_settle();
    if (thread == 1) return work();
    collect_all();
  }

  void end() {
    check(settled_, "all that was offered is committed");
    outcome(0);
  }

 private:
  /// Waits until `holds`, which changes before `event` is notified.
  template <class Holds>
  static void wait_until(EventCount& event, Holds&& holds) {
    while (!holds()) {
      const std::uint32_t key = event.prepare();
      if (holds()) return;
      event.wait(key, Deadline::max());
    }
  }

  /// WorkerPool::submit() and wait_committed().
  void offer_and_settle() {
    for (std::uint64_t i = 0; i < plan_.items; ++i) {
      wait_until(collected_,
                 [&] { return oldest_.load(std::memory_order_acquire) == i; });
      offer(ring_.claim(1, ring_.term()).first);
      board_.work.notify();
    }
    wait_until(collected_,
               [&] { return oldest_.load(std::memory_order_acquire) == plan_.items; });
    settled_ = ring_.committed() == plan_.items;
    for (std::uint64_t i = 0; i < plan_.items; ++i)
      check(slots_[i] == 1 + i, "a slot is committed that nobody wrote");
  }

  /// WorkerPool::collect().
  void collect_all() {
    while (oldest_.load(std::memory_order_relaxed) < plan_.items) {
      if (!collect(0)) {
        const std::uint32_t key = done_.prepare();
        if (!collect(0)) {
          done_.wait(key, Deadline::max());
          continue;
        }
      }
      collected_.notify();
    }
  }

  /// Worker::take(), as wait_for() waits.
  void work() {
    for (std::uint64_t made = 0; made < plan_.items; ++made) {
      EventCount* event = look();
      while (event) {
        const std::uint32_t key = event->prepare();
        EventCount* const now = look();
        if (now == event) event->wait(key, Deadline::max());
        event = now == event ? look() : now;
      }
      make(hold_);
    }
  }
  /// Takes an item; else returns what to wait for.
  EventCount* look() {
    if (hold_.take()) return nullptr;
    return hold_.has_room() ? &board_.work : &queues_[0].room;
  }

  Hold hold_{board_, queues_[0], 0};
  EventCount collected_;
  bool settled_ = false;
};

/// Two items are there from the start. Threads 0 and 1 are workers, each of which makes
/// one, 2 commits.
class TakeApart : public PoolWorld<2, 2> {
 public:
  static constexpr int kThreads = 3;

  explicit TakeApart(const PoolPlan& plan) : PoolWorld(plan) {
    ring_.claim(plan.items, ring_.term());
    for (std::uint64_t i = 0; i < plan.items; ++i) offer(i);
  }

  void run(int thread) {
    if (thread == 2) return collect_all();
    Hold& hold = holds_[thread];
    check(hold.take(), "there is an item for each");
    made_[thread] = hold.item();
    make(hold);
  }

  void end() {
    check(made_[0] != made_[1], "each item is made once");
    outcome(made_[0] * 2 + (slots_[0] - 1));
  }

 private:
  void collect_all() {
    while (oldest_.load(std::memory_order_relaxed) < plan_.items)
      if (const bool any = collect(0); !collect(1) && !any) pause();
    for (std::uint64_t i = 0; i < plan_.items; ++i)
      check(slots_[i] != 0, "a slot is committed that nobody wrote");
  }

  Hold holds_[2] = {{board_, queues_[0], 0}, {board_, queues_[1], 1}};
  std::uint64_t made_[2] = {};
};

}  // namespace echobuf::model
