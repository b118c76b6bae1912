// Runs in a worker process: takes tickets and writes records into the ring's slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A worker process's end of its queue. For one thread.
class Worker {
 public:
  /// `slots`: of the trainer's ring, `capacity` of them.
  Worker(int control_block, std::uint64_t queues, std::uint64_t queue, int slots,
         RecordLayout layout, std::uint64_t capacity)
      : block_(control_block, queues),
        queue_(block_.queue(queue)),
        layout_(std::move(layout)),
        capacity_(capacity),
        slots_(slots, size_product(capacity, layout_.stride())),
        stream_(HostStore::streams(slots_.bytes())) {}

  const RecordLayout& layout() const { return layout_; }

  /// Waits for the next example to make; sets its index. kClosed: the pool is closed.
  Status take(std::int64_t& index, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (block_.header().closed.load(std::memory_order_acquire))
        return {Status::kClosed};
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
      if (block_.header().closed.load(std::memory_order_acquire))
        return {Status::kClosed};
      if (is_revoked()) return {Status::kOk};
      return {Status::kTimeout, &queue_.work};
    });
  }

  /// Writes the example of the ticket that was taken. One leaf for each field.
  void write(const SourceLeaf* leaves) {
    std::byte* slot = slots_.data() + current().position % capacity_ * layout_.stride();
    write_record(layout_, slot, leaves, 0, 0, stream_);
    if (stream_) finish_streaming();
  }

  /// Marks the ticket that was taken as done.
  void done() {
    const std::uint64_t ticket = queue_.done.load(std::memory_order_relaxed);
    queue_.done.store(ticket + 1, std::memory_order_release);
    block_.header().done.notify();
  }

 private:
  const Ticket& current() const {
    return queue_
        .tickets[queue_.done.load(std::memory_order_relaxed) % WorkerQueue::kDepth];
  }

  ControlBlock block_;
  WorkerQueue& queue_;
  const RecordLayout layout_;
  const std::uint64_t capacity_;
  SharedMemory slots_;
  const RowCopy stream_;
};

}  // namespace echobuf::workers
