// Runs in a worker process: takes tickets from its queue, or items from the board.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "echobuf/shared/control_block.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A worker process's end of its queue, whatever it makes. For one thread.
class QueueWorker {
 public:
  QueueWorker(int control_block, std::uint64_t queues, std::uint64_t queue)
      : block_(control_block, queues), queue_(block_.queue(queue)), number_(queue) {
    if (takes_items()) go_on();
  }

  /// Waits for the next example to make; sets its index. kClosed: the pool is closed.
  Status take(std::int64_t& index, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      for (;;) {
        if (is_closed()) return {Status::kClosed};
        if (EventCount* const nothing = find()) return {Status::kTimeout, nothing};
        if (!is_revoked()) break;
        done();
      }
      index = takes_items() ? board().at(*item_).index : current().index;
      return {Status::kOk};
    });
  }

  /// The number of the ticket that was taken, else of the next one; it counts what this
  /// worker makes.
  std::uint64_t ticket() const { return queue_.done.load(std::memory_order_relaxed); }

  /// What the trainer knows the example by that was taken.
  std::uint64_t id() const { return item_.value_or(ticket()); }

  /// True once the example that was taken is revoked.
  bool is_revoked() const {
    // Acquire: pairs with WorkerPool::revoke() and ArrivalPool::revoke().
    return id() < (takes_items() ? board().revoked : queue_.revoked)
                      .load(std::memory_order_acquire);
  }

  /// Waits until the ticket is revoked: an example that could not be made must not be
  /// marked as done before.
  Status wait_revoked(Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed()) return {Status::kClosed};
      if (is_revoked()) return {Status::kOk};
      return {Status::kTimeout, takes_items() ? &board().work : &queue_.work};
    });
  }

  /// Marks the example that was taken as done.
  void done() {
    const std::uint64_t ticket = this->ticket();
    if (takes_items())
      queue_.tickets[ticket % WorkerQueue::kDepth] = {
          static_cast<std::int64_t>(*item_), place_.value_or(ItemBoard::kNone)};
    queue_.done.store(ticket + 1, std::memory_order_release);
    if (takes_items()) finish();  // after: see go_on()
    block_.header().done.notify();
  }

 protected:
  bool is_closed() const {
    return block_.header().closed.load(std::memory_order_acquire);
  }
  /// Notified when more was submitted or revoked, and when the trainer has taken
  /// examples out of the worker's area.
  EventCount& work() const { return queue_.work; }

  /// The position of the example in the ring. Workers that take items take the next
  /// position only when they have one to write.
  std::uint64_t position() {
    if (!takes_items()) return current().position;
    if (!place_) {
      const std::uint64_t own = board().at(*item_).own;
      // There are as many places as items.
      place_ = own == ItemBoard::kNone ? board().take_place(number_) : own;
    }
    return board().at(place_.value()).position;
  }

 private:
  bool takes_items() const { return board().used.load(std::memory_order_relaxed) != 0; }
  ItemBoard& board() const { return block_.board(); }

  const Ticket& current() const {
    return queue_.tickets[ticket() % WorkerQueue::kDepth];
  }

  /// Finds an example to make; else returns what to wait for.
  EventCount* find() {
    // Acquire: pairs with the pools' submit(); in the other case the trainer has read
    // the ticket that is written over.
    const std::uint64_t submitted = queue_.submitted.load(std::memory_order_acquire);
    if (!takes_items()) return ticket() < submitted ? nullptr : &queue_.work;
    if (ticket() - submitted >= WorkerQueue::kDepth) return &queue_.work;
    if (!item_) item_ = board().take_item(number_);
    return item_ ? nullptr : &board().work;
  }

  /// Goes on with what a process that died had taken. If that was written down as done
  /// already, only the marks are missing.
  void go_on() {
    item_ = board().held(&ItemBoard::Item::item, number_);
    place_ = board().held(&ItemBoard::Item::place, number_);
    if (ticket() == 0) return;
    const Ticket& last = queue_.tickets[(ticket() - 1) % WorkerQueue::kDepth];
    if (item_ && *item_ == static_cast<std::uint64_t>(last.index)) {
      finish();
    } else if (place_ && *place_ == last.position) {
      board().at(*place_).place.finish(*place_, number_);
      place_.reset();
    }
  }

  void finish() {
    board().at(*item_).item.finish(*item_, number_);
    item_.reset();
    if (place_) board().at(*place_).place.finish(*place_, number_);
    place_.reset();
  }

  ControlBlock block_;
  WorkerQueue& queue_;
  const std::uint64_t number_;
  std::optional<std::uint64_t> item_;
  std::optional<std::uint64_t> place_;
};

}  // namespace echobuf::workers
