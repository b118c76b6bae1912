// A small program on what a server with worker processes does when it revokes what
// it submitted: WorkerPool::revoke(), Worker::done(), WorkerPool::collect_once(),
// SharedRing::publish() and SharedRing::fail(), over the ring itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"
#include "explorer.hpp"

namespace echobuf::model {

/// The order of the thread that revokes; the first is what WorkerPool::revoke() does.
enum class Stop { kFirst, kLast, kNever };

struct RevokePlan {
  std::uint64_t tickets = 2;
  Stop stop = Stop::kFirst;
  bool looks_first = false;  // the publisher looks whether to stop before it looks
};

/// Thread 0 is a worker, 1 commits what is marked as done, 2 publishes, 3 revokes. As
/// the ring, publisher and job are one: a job reads what is published at once.
class RevokeAndPublish {
 public:
  static constexpr int kThreads = 4;

  explicit RevokeAndPublish(const RevokePlan& plan)
      : plan_(plan), ring_(plan.tickets), slots_(new std::uint64_t[plan.tickets]()) {
    ring_.claim(plan.tickets, ring_.term());  // submitted, before anything else
  }
  RevokeAndPublish(const RevokeAndPublish&) = delete;

  void run(int thread) {
    switch (thread) {
      case 0:
        return work();
      case 1:
        return collect();
      case 2:
        return publish();
      default:
        return take_back();
    }
  }

  void end() {
    check(committed_.load(std::memory_order_relaxed) == plan_.tickets,
          "all is committed: the next epoch, and who settles, wait for it");
    check(ring_.closed(), "the term has ended");
    outcome(published_);
  }

 private:
  /// Worker::take(), write() and done().
  void work() {
    for (std::uint64_t ticket = 0; ticket < plan_.tickets; ++ticket) {
      const bool is_revoked = ticket < revoked_.load(std::memory_order_acquire);
      if (!is_revoked) slots_[ticket] = 1 + ticket;
      done_.store(ticket + 1, std::memory_order_release);
    }
  }

  /// WorkerPool::collect_once(), until all is committed.
  void collect() {
    std::uint64_t next = 0;
    while (next < plan_.tickets) {
      const std::uint64_t done = done_.load(std::memory_order_acquire);
      if (next == done) pause();
      for (; next < done; ++next) ring_.commit(next, 1);
    }
    committed_.store(next, std::memory_order_release);
  }

  /// SharedRing::publish(), and the job that reads it.
  void publish() {
    while (published_ < plan_.tickets) {
      if (plan_.looks_first && halted_.load(std::memory_order_acquire)) return;
      const std::uint64_t end = ring_.committed();
      if (!plan_.looks_first && halted_.load(std::memory_order_acquire)) return;
      if (end == published_) pause();
      for (; published_ < end; ++published_)
        check(slots_[published_] == 1 + published_,
              "a slot is published that nobody wrote");
    }
  }

  /// WorkerPool::revoke().
  void take_back() {
    if (plan_.stop == Stop::kFirst) halted_.store(true, std::memory_order_release);
    ring_.close();
    revoked_.store(plan_.tickets, std::memory_order_release);
    if (plan_.stop == Stop::kLast) halted_.store(true, std::memory_order_release);
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  const RevokePlan plan_;
  Ring ring_;
  std::uint64_t* const slots_;
  std::uint64_t published_ = 0;  // of the publisher
  std::atomic<std::uint64_t> done_{0}, revoked_{0}, committed_{0};
  std::atomic<bool> halted_{false};
};

}  // namespace echobuf::model
