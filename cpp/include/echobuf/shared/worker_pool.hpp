// Runs in the trainer: submits examples to worker processes, and commits those that
// they have written. Workers finish in any order; the ring keeps the order of
// submission.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/shared/collector.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/queue_progress.hpp"
#include "echobuf/shared/slot_delivery.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// The trainer's end of the queues. `Core`: a BasicBuffer, or a SharedRing. `Delivery`:
/// the way of an example from its worker into the ring. One thread at a time submits; a
/// thread of the pool commits.
template <class Core, class Delivery = SlotDelivery<Core>>
class WorkerPool {
 public:
  /// `ahead`: tickets that a worker may have outstanding. Throws std::bad_alloc,
  /// std::system_error.
  WorkerPool(std::shared_ptr<Core> buffer, std::uint64_t workers, std::uint64_t ahead)
      : buffer_(std::move(buffer)),
        block_(workers),
        queues_(workers),
        ahead_(std::clamp<std::uint64_t>(ahead, 1, WorkerQueue::kDepth)),
        delivery_(buffer_, workers, ahead_),
        collector_([this] {
          collect_until(ending_, block_.header().done, collected_,
                        [this] { return collect_once(); });
        }) {}  // last: if it throws, nothing is joined

  /// Asks the workers to end, and does not wait for them: records that they write from
  /// now on are not read.
  ~WorkerPool() {
    close();
    ending_.store(true, std::memory_order_release);
    block_.header().done.notify();
    collector_.join();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  const ControlBlock& control_block() const { return block_; }
  const Delivery& delivery() const { return delivery_; }

  /// Submits examples `submitted` ... n-1 of `indices`, and counts them. kClosed: the
  /// term has ended, or tickets were revoked.
  Status submit(std::uint64_t term, const std::int64_t* indices, std::uint64_t n,
                std::uint64_t& submitted, Deadline deadline) {
    while (submitted < n) {
      QueueProgress* queue = nullptr;
      const Status free = wait_for(deadline, nullptr, [&]() -> Attempt {
        if (has_ended(term)) return {Status::kClosed};
        queue = least_loaded();
        if (queue->outstanding() < ahead_) return {Status::kOk};
        return {Status::kTimeout, &collected_};
      });
      if (free != Status::kOk) return free;
      Ticket ticket{indices[submitted], 0};
      const auto number = static_cast<std::uint64_t>(queue - queues_.data());
      const Status room = delivery_.place(term, number, ticket, deadline);
      if (room != Status::kOk) return room;
      submit(*queue, ticket);
      ++submitted;
    }
    return Status::kOk;
  }

  /// The number of tickets submitted to each queue so far.
  std::vector<std::uint64_t> submitted() const {
    std::vector<std::uint64_t> counts(queues_.size());
    for (std::uint64_t i = 0; i < queues_.size(); ++i)
      counts[i] = queues_[i].submitted.load(std::memory_order_acquire);
    return counts;
  }

  /// Revokes the tickets up to these counts; workers finish the example that they are
  /// making. Ends the term first, as abandon() does: revoked tickets are marked as done
  /// unwritten, and must find a buffer that serves nothing more. All that is
  /// outstanding is of one term, since the next begins when it is committed. One thread
  /// at a time.
  void revoke(std::uint64_t term, const std::vector<std::uint64_t>& counts) {
    abandon(term);
    for (std::uint64_t i = 0; i < queues_.size(); ++i) {
      WorkerQueue& shared = block_.queue(i);
      if (counts[i] <= shared.revoked.load(std::memory_order_relaxed)) continue;
      // Release: pairs with Worker::is_revoked(); a thread that sees the commit that
      // follows sees the failure, too.
      shared.revoked.store(counts[i], std::memory_order_release);
      shared.work.notify();
    }
    collected_.notify();  // a thread in submit() sees that the term has ended
  }

  /// Ends a term as failed, unless another one has begun.
  void abandon(std::uint64_t term) {
    buffer_->fail(term);
    collected_.notify();
  }

  /// True unless the ticket of that queue was revoked.
  bool is_wanted(std::uint64_t queue, std::uint64_t ticket) const {
    return ticket >= block_.queue(queue).revoked.load(std::memory_order_acquire);
  }

  /// Marks as done the revoked tickets of a queue whose worker process has ended.
  void reap(std::uint64_t queue) {
    WorkerQueue& shared = block_.queue(queue);
    const std::uint64_t revoked = shared.revoked.load(std::memory_order_acquire);
    if (shared.done.load(std::memory_order_acquire) < revoked)
      shared.done.store(revoked, std::memory_order_release);
    block_.header().done.notify();
  }

  /// Waits until the tickets up to these counts are committed, and not for later ones:
  /// the next epoch may have been begun ahead.
  Status wait_committed(const std::vector<std::uint64_t>& counts, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_committed(counts)) return {Status::kOk};
      return {Status::kTimeout, &collected_};
    });
  }

  /// Tickets of a queue that are not committed yet.
  std::uint64_t outstanding(std::uint64_t queue) const {
    return queues_[queue].outstanding();
  }

  /// Returns the index of the example that the worker of a queue makes now, or takes
  /// next; none if it has no tickets.
  std::optional<std::int64_t> making(std::uint64_t queue) const {
    const QueueProgress& progress = queues_[queue];
    const std::uint64_t done = block_.queue(queue).done.load(std::memory_order_acquire);
    // Acquire: pairs with submit(); the index comes with the count.
    if (done >= progress.submitted.load(std::memory_order_acquire)) return {};
    return progress.indices[done % WorkerQueue::kDepth].load(std::memory_order_relaxed);
  }

  /// Asks the workers to end.
  void close() {
    block_.header().closed.store(1, std::memory_order_release);
    for (std::uint64_t i = 0; i < queues_.size(); ++i) block_.queue(i).work.notify();
  }

 private:
  QueueProgress* least_loaded() {
    QueueProgress* best = &queues_.front();
    std::uint64_t least = best->outstanding();
    for (QueueProgress& queue : queues_) {
      const std::uint64_t own = queue.outstanding();
      if (own < least) {
        best = &queue;
        least = own;
      }
    }
    return best;
  }

  void submit(QueueProgress& queue, const Ticket& ticket) {
    WorkerQueue& shared =
        block_.queue(static_cast<std::uint64_t>(&queue - queues_.data()));
    const std::uint64_t number = queue.submitted.load(std::memory_order_relaxed);
    queue.positions[number % WorkerQueue::kDepth] = ticket.position;
    queue.indices[number % WorkerQueue::kDepth].store(ticket.index,
                                                      std::memory_order_relaxed);
    shared.tickets[number % WorkerQueue::kDepth] = ticket;
    // Release: the collector finds the position.
    queue.submitted.store(number + 1, std::memory_order_release);
    delivery_.submitted();  // before the worker can be done with it
    shared.submitted.store(number + 1, std::memory_order_release);
    shared.work.notify();
  }

  bool has_ended(std::uint64_t term) const {
    std::uint64_t done = 0;
    return buffer_->put(term, nullptr, 0, 0, done, kAtOnce, nullptr) == Status::kClosed;
  }

  bool is_committed(const std::vector<std::uint64_t>& counts) const {
    for (std::uint64_t i = 0; i < queues_.size(); ++i)
      if (queues_[i].committed.load(std::memory_order_acquire) < counts[i])
        return false;
    return true;
  }

  bool collect_once() { return delivery_.collect(block_, queues_); }

  const std::shared_ptr<Core> buffer_;
  const ControlBlock block_;
  std::vector<QueueProgress> queues_;
  const std::uint64_t ahead_;
  Delivery delivery_;
  EventCount collected_;
  std::atomic<bool> ending_{false};
  std::thread collector_;  // last: it uses the rest
};

}  // namespace echobuf::workers
