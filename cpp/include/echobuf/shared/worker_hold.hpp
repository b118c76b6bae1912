// What a worker has taken from the board, and how another process goes on with it.
#pragma once

#include <cstdint>
#include <optional>

#include "echobuf/shared/control_block.hpp"

namespace echobuf::workers {

/// The item that a worker makes, and the place where it writes the example. The places
/// of items that are held to no order are taken as late as there is something to write.
/// `Board`: an ItemBoard, `Queue`: a DoneQueue. For one thread.
template <class Board, class Queue>
class WorkerHold {
 public:
  /// Goes on with what a process that died had taken.
  WorkerHold(Board& board, Queue& queue, std::uint64_t worker)
      : board_(board), queue_(queue), worker_(worker) {
    go_on();
  }

  /// Takes an item, unless there is one in hand; false if there is none, or no room to
  /// say that it is done.
  bool take() {
    if (!item_ && has_room()) item_ = board_.take_item(worker_);
    return item_.has_value();
  }
  /// Returns whether the queue has room for what is done next. Acquire: the trainer has
  /// read the entry that is written over.
  bool has_room() const {
    return done() - queue_.read.load(std::memory_order_acquire) < Queue::kDepth;
  }

  std::uint64_t item() const { return item_.value(); }
  std::int64_t index() const { return board_.at(item()).index; }
  /// The number of items that the worker is done with.
  std::uint64_t done() const { return queue_.done.load(std::memory_order_relaxed); }

  /// True once the item in hand is revoked.
  bool is_revoked() const {
    // Acquire: pairs with Collector::revoke().
    return item() < board_.revoked.load(std::memory_order_acquire);
  }

  /// The position of the example in the ring.
  std::uint64_t position() {
    // There are as many places as items.
    if (!place_)
      place_ = board_.at(item()).ordered ? item_ : board_.take_place(worker_);
    return board_.at(place_.value()).position;
  }

  /// Is done with the item.
  void finish() {
    const std::uint64_t number = done();
    queue_.entries[number % Queue::kDepth] = {item(), place_.value_or(Board::kNone)};
    queue_.done.store(number + 1, std::memory_order_release);
    let_go();  // after: see go_on()
  }

 private:
  /// If what was taken was written down as done already, only the marks are missing.
  void go_on() {
    item_ = board_.held(&Board::Item::item, worker_);
    place_ = board_.held(&Board::Item::place, worker_);
    if (done() == 0) return;
    const DoneItem& last = queue_.entries[(done() - 1) % Queue::kDepth];
    if (item_ && *item_ == last.item) {
      let_go();
    } else if (place_ && *place_ == last.place) {
      board_.at(*place_).place.finish(*place_, worker_);
      place_.reset();
    }
  }

  /// The place of an item that is held to an order was nobody's, and its word stays.
  void let_go() {
    board_.at(*item_).item.finish(*item_, worker_);
    item_.reset();
    if (place_) board_.at(*place_).place.finish(*place_, worker_);
    place_.reset();
  }

  Board& board_;
  Queue& queue_;
  const std::uint64_t worker_;
  std::optional<std::uint64_t> item_;
  std::optional<std::uint64_t> place_;
};

}  // namespace echobuf::workers
