// Runs in a worker process: takes tickets from its queue.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/buffer/options.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A worker process's end of its queue, whatever it makes. For one thread.
class QueueWorker {
 public:
  QueueWorker(int control_block, std::uint64_t queues, std::uint64_t queue)
      : block_(control_block, queues), queue_(block_.queue(queue)) {}

  /// Waits for the next example to make; sets its index. kClosed: the pool is closed.
  Status take(std::int64_t& index, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed()) return {Status::kClosed};
      // Relaxed: our own. Acquire: pairs with WorkerPool::submit() and
      // WorkerPool::revoke().
      for (;;) {
        const std::uint64_t ticket = queue_.done.load(std::memory_order_relaxed);
        if (queue_.submitted.load(std::memory_order_acquire) == ticket)
          return {Status::kTimeout, &queue_.work};
        if (!is_revoked()) break;
        done();
      }
      index = current().index;
      return {Status::kOk};
    });
  }

  /// The number of the ticket that was taken, else of the next one.
  std::uint64_t ticket() const { return queue_.done.load(std::memory_order_relaxed); }

  /// True once the ticket that was taken is revoked.
  bool is_revoked() const {
    return queue_.done.load(std::memory_order_relaxed) <
           queue_.revoked.load(std::memory_order_acquire);
  }

  /// Waits until the ticket is revoked: an example that could not be made must not be
  /// marked as done before.
  Status wait_revoked(Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed()) return {Status::kClosed};
      if (is_revoked()) return {Status::kOk};
      return {Status::kTimeout, &queue_.work};
    });
  }

  /// Marks the ticket that was taken as done.
  void done() {
    const std::uint64_t ticket = queue_.done.load(std::memory_order_relaxed);
    queue_.done.store(ticket + 1, std::memory_order_release);
    block_.header().done.notify();
  }

 protected:
  bool is_closed() const {
    return block_.header().closed.load(std::memory_order_acquire);
  }
  /// Notified when more was submitted or revoked, and when the trainer has taken
  /// examples out of the worker's area.
  EventCount& work() const { return queue_.work; }

  const Ticket& current() const {
    return queue_
        .tickets[queue_.done.load(std::memory_order_relaxed) % WorkerQueue::kDepth];
  }

 private:
  ControlBlock block_;
  WorkerQueue& queue_;
};

}  // namespace echobuf::workers
