// Examples of one size: workers write them into the ring's slots.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/queue_progress.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// Claims a position for each ticket that is submitted, and commits it once its worker
/// is done, in any order.
template <class Core>
class SlotDelivery {
 public:
  SlotDelivery(std::shared_ptr<Core> buffer, std::uint64_t /*workers*/,
               std::uint64_t /*ahead*/)
      : buffer_(std::move(buffer)) {}

  /// The memory that workers write examples into; null if the slots are not shared.
  const SharedMemory* memory() const { return buffer_->shared_memory(); }

  /// Waits for a position of a ticket that is about to be submitted.
  Status place(std::uint64_t term, std::uint64_t /*queue*/, Ticket& ticket,
               Deadline deadline) {
    std::uint64_t one = 1;
    return buffer_->claim(term, ticket.position, one, deadline);
  }
  /// The ticket was submitted.
  void submitted() {}

  /// Commits tickets that are done; returns false if there are none.
  bool collect(const ControlBlock& block, std::vector<QueueProgress>& queues) {
    bool any = false;
    for (std::uint64_t i = 0; i < queues.size(); ++i) {
      QueueProgress& queue = queues[i];
      const std::uint64_t done = queue.done(block.queue(i));
      std::uint64_t next = queue.committed.load(std::memory_order_relaxed);
      any |= next < done;
      for (; next < done; ++next)
        buffer_->commit(queue.positions[next % WorkerQueue::kDepth], 1);
      queue.committed.store(next, std::memory_order_release);
    }
    return any;
  }

 private:
  const std::shared_ptr<Core> buffer_;
};

}  // namespace echobuf::workers
