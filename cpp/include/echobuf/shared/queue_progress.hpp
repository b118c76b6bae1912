// The trainer's own record of what it has submitted to a worker's queue.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "echobuf/shared/control_block.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf::workers {

/// Tickets of one queue, as no worker can change them.
struct alignas(kNoSharing) QueueProgress {
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> committed{0};
  std::array<std::uint64_t, WorkerQueue::kDepth> positions{};
  // Relaxed: making() may read an entry while it is used again; it is a report.
  std::array<std::atomic<std::int64_t>, WorkerQueue::kDepth> indices{};

  // Acquire: pairs with the collector's release; the entries of tickets that are
  // committed are free.
  std::uint64_t outstanding() const {
    return submitted.load(std::memory_order_acquire) -
           committed.load(std::memory_order_acquire);
  }

  /// Tickets that the worker has marked as done: never more than were submitted, even
  /// if a worker with corrupted memory has written nonsense into the control block.
  /// Acquire: pairs with Worker::done().
  std::uint64_t done(const WorkerQueue& shared) const {
    return std::min(shared.done.load(std::memory_order_acquire),
                    submitted.load(std::memory_order_acquire));
  }
};

}  // namespace echobuf::workers
