// Examples that differ in length: workers leave them in areas of their own, and the
// trainer puts them into the ring, in the order of submission.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/buffer/payload_backend.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/queue_progress.hpp"
#include "echobuf/shared/rows_area.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A position is claimed together with room for the rows, and so once the length of the
/// example is known: it is put, by the collector, when all before it were.
template <class Core>
class RowsDelivery {
 public:
  /// `ahead`: tickets that a worker may have outstanding.
  RowsDelivery(std::shared_ptr<Core> buffer, std::uint64_t workers, std::uint64_t ahead)
      : buffer_(std::move(buffer)),
        record_(record_of(buffer_->options()), buffer_->options().lengths.fields,
                buffer_->most_bytes()),
        areas_(workers, record_.sizes(mean_bytes(buffer_->options()), ahead)),
        order_(workers * WorkerQueue::kDepth),
        made_(workers) {}

  /// The memory that workers write examples into.
  const SharedMemory* memory() const { return &areas_.memory(); }
  const AreaSizes& sizes() const { return areas_.sizes(); }
  /// The most bytes of the rows of an example.
  std::uint64_t most() const { return record_.most(); }

  /// Notes the place of a ticket, which is about to be submitted, among all.
  Status place(std::uint64_t term, std::uint64_t queue, Ticket& ticket, Deadline) {
    ticket.position = placed_.load(std::memory_order_relaxed);
    order_[ticket.position % order_.size()] = {queue, term};
    buffer_->begin_making(1);
    return Status::kOk;
  }
  /// The ticket was submitted. Release: pairs with collect(); its place comes with it.
  void submitted() { placed_.fetch_add(1, std::memory_order_release); }

  /// Puts the next example, if it is done; waits for room a moment at most. Returns
  /// false if it is not done.
  bool collect(const ControlBlock& block, std::vector<QueueProgress>& queues) {
    note_made(block, queues);
    if (next_ == placed_.load(std::memory_order_acquire)) return false;
    const auto [i, term] = order_[next_ % order_.size()];
    QueueProgress& queue = queues[i];
    const std::uint64_t ticket = queue.committed.load(std::memory_order_relaxed);
    if (queue.done(block.queue(i)) <= ticket) return false;
    if (put(block.queue(i), i, ticket, term) == Status::kTimeout) return true;
    ++next_;
    // Release: see AreaHeader::collected, and QueueProgress::outstanding().
    areas_.header(i).collected.store(ticket + 1, std::memory_order_release);
    queue.committed.store(ticket + 1, std::memory_order_release);
    block.queue(i).work.notify();  // the worker may wait for room
    return true;
  }

 private:
  struct Place {
    std::uint64_t queue;
    std::uint64_t term;
  };

  /// The buffer counts a wait for room as one of upstream's only while nothing is being
  /// made, so it is to be told soon; and it wakes this thread as soon as there is room.
  static constexpr auto kMoment = std::chrono::milliseconds(1);
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  void note_made(const ControlBlock& block, std::vector<QueueProgress>& queues) {
    for (std::uint64_t i = 0; i < queues.size(); ++i) {
      const std::uint64_t done = queues[i].done(block.queue(i));
      if (done <= made_[i]) continue;
      buffer_->end_making(done - made_[i]);
      all_made_ += done - made_[i];
      made_[i] = done;
    }
  }

  Status put(const WorkerQueue& shared, std::uint64_t i, std::uint64_t ticket,
             std::uint64_t term) {
    // Acquire: a ticket that was marked as done unwritten was revoked before.
    if (ticket < shared.revoked.load(std::memory_order_acquire)) return Status::kClosed;
    const auto leaves = areas_.read(i, ticket, record_);
    try {
      if (!leaves) throw std::invalid_argument("a worker has written nonsense");
      const bool making = all_made_ < placed_.load(std::memory_order_relaxed);
      const auto wait = making ? Clock::duration(kMoment) : Clock::duration(kSlice);
      std::uint64_t done = 0;
      return buffer_->put_made(term, leaves->data(), done, Clock::now() + wait);
    } catch (const std::invalid_argument&) {
      buffer_->fail(term);  // a worker with corrupted memory: it checks what it writes
      return Status::kFailed;
    }
  }

  const std::shared_ptr<Core> buffer_;
  const AreaRecord record_;
  const RowsAreas areas_;
  std::vector<Place> order_;  // of tickets that are outstanding; by their places
  std::atomic<std::uint64_t> placed_{0};
  // The collector's.
  std::uint64_t next_ = 0;           // place of the ticket to be put
  std::vector<std::uint64_t> made_;  // of each queue
  std::uint64_t all_made_ = 0;
};

}  // namespace echobuf::workers
