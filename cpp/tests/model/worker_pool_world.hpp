// A small program on how examples pass through one queue of a worker pool: the trainer
// gives tickets, a worker writes slots, a thread of the trainer commits them. Written
// out as in workers/, over the ring and event counts themselves.
#pragma once

#include <atomic>
#include <cstdint>

#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"
#include "explorer.hpp"

namespace echobuf::model {

struct PoolPlan {
  std::uint64_t tickets = 2;
};

/// Thread 0 gives tickets and waits until they are committed, 1 is the worker, 2
/// commits. The queue has one place, so that the second ticket takes that of the first.
class GiveAndSettle {
 public:
  static constexpr int kThreads = 3;

  explicit GiveAndSettle(const PoolPlan& plan)
      : plan_(plan), ring_(plan.tickets), slots_(new std::uint64_t[plan.tickets]()) {}
  GiveAndSettle(const GiveAndSettle&) = delete;

  void run(int thread) {
    if (thread == 0) return give_and_settle();
    if (thread == 1) return work();
    collect();
  }

  void end() {
    check(settled_, "all that was given is committed");
    outcome(0);
  }

 private:
  static constexpr std::uint64_t kDepth = 1;

  struct Ticket {
    std::uint64_t index, position;
  };

  // ---- the trainer

  /// Waits until `holds`, which changes before `event` is notified.
  template <class Holds>
  static void wait_until(EventCount& event, Holds&& holds) {
    while (!holds()) {
      const std::uint32_t key = event.prepare();
      if (holds()) return;
      event.wait(key, Deadline::max());
    }
  }

  void give_and_settle() {
    for (std::uint64_t i = 0; i < plan_.tickets; ++i) {
      wait_until(collected_, [&] { return outstanding() < kDepth; });
      give(i, ring_.claim(1, ring_.term()).first);
    }
    wait_until(collected_, [&] {
      return committed_.load(std::memory_order_acquire) == plan_.tickets;
    });
    settled_ = ring_.committed() == plan_.tickets;
    for (std::uint64_t i = 0; i < plan_.tickets; ++i)
      check(slots_[i] == 1 + i, "a slot is committed that nobody wrote");
  }

  std::uint64_t outstanding() const {
    return own_given_.load(std::memory_order_acquire) -
           committed_.load(std::memory_order_acquire);
  }

  void give(std::uint64_t index, std::uint64_t position) {
    const std::uint64_t number = own_given_.load(std::memory_order_relaxed);
    positions_[number % kDepth] = position;
    tickets_[number % kDepth] = {index, position};
    own_given_.store(number + 1, std::memory_order_release);
    given_.store(number + 1, std::memory_order_release);
    work_.notify();
  }

  // ---- the trainer's thread that commits

  bool collect_once() {
    // Both: no more than was given is committed, whatever a worker says.
    const std::uint64_t said = done_.load(std::memory_order_acquire);
    const std::uint64_t given = own_given_.load(std::memory_order_acquire);
    const std::uint64_t done = said < given ? said : given;
    std::uint64_t next = committed_.load(std::memory_order_relaxed);
    const bool any = next < done;
    for (; next < done; ++next) ring_.commit(positions_[next % kDepth], 1);
    committed_.store(next, std::memory_order_release);
    return any;
  }

  void collect() {
    while (committed_.load(std::memory_order_relaxed) < plan_.tickets) {
      if (collect_once()) {
        collected_.notify();
        continue;
      }
      const std::uint32_t key = done_event_.prepare();
      if (collect_once()) {
        collected_.notify();
        continue;
      }
      done_event_.wait(key, Deadline::max());
    }
  }

  // ---- the worker

  void work() {
    for (std::uint64_t number = 0; number < plan_.tickets; ++number) {
      wait_until(work_,
                 [&] { return given_.load(std::memory_order_acquire) > number; });
      const Ticket& ticket = tickets_[number % kDepth];
      slots_[ticket.position] = 1 + ticket.index;
      done_.store(number + 1, std::memory_order_release);
      done_event_.notify();
    }
  }

  const PoolPlan plan_;
  Ring ring_;
  std::uint64_t* const slots_;
  Ticket tickets_[kDepth] = {};
  std::uint64_t positions_[kDepth] = {};
  std::atomic<std::uint64_t> own_given_{0}, committed_{0};  // of the trainer
  std::atomic<std::uint64_t> given_{0}, done_{0};           // shared
  EventCount work_, done_event_, collected_;
  bool settled_ = false;
};

}  // namespace echobuf::model
