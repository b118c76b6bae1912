// Runs in a worker process: takes items, and writes their examples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "echobuf/options.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/rows_area.hpp"
#include "echobuf/shared/worker_hold.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/slots.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// The slots of the trainer's ring, as a worker writes them.
class RingSlots {
 public:
  RingSlots(int fd, RecordLayout layout, std::uint64_t capacity)
      : layout_(std::move(layout)),
        capacity_(capacity),
        memory_(fd, size_product(capacity, layout_.stride())),
        non_temporal_(Slots::streams(memory_.bytes())) {}

  void write(std::uint64_t position, const SourceLeaf* leaves) const {
    std::byte* slot = memory_.data() + position % capacity_ * layout_.stride();
    write_record(layout_, slot, leaves, 0, 0, non_temporal_);
    if (non_temporal_) finish_streaming();
  }

 private:
  const RecordLayout layout_;
  const std::uint64_t capacity_;
  const SharedMemory memory_;
  const RowCopy non_temporal_;
};

/// A worker process's end of a pool. For one thread.
class Worker {
 public:
  /// Of examples of one size, which go into slots.
  Worker(int control_block, std::uint64_t workers, std::uint64_t number,
         std::unique_ptr<const RingSlots> slots)
      : Worker(control_block, workers, number, std::move(slots), nullptr) {}
  /// Of examples that differ in length, which go into the worker's area.
  Worker(int control_block, std::uint64_t workers, std::uint64_t number,
         std::unique_ptr<const RowsAreas> areas)
      : Worker(control_block, workers, number, nullptr, std::move(areas)) {}

  /// Waits for the next example to make; sets its index. kClosed: the pool is closed.
  Status take(std::int64_t& index, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      for (;;) {
        if (is_closed()) return {Status::kClosed};
        if (!hold_.take())
          return {Status::kTimeout, hold_.has_room() ? &board().work : &queue_.room};
        if (!hold_.is_revoked()) break;
        done();
      }
      index = hold_.index();
      return {Status::kOk};
    });
  }

  /// What the trainer knows the example by that was taken.
  std::uint64_t item() const { return hold_.item(); }

  /// Writes the example that was taken; `leaves` has one for each field. Examples that
  /// differ in length wait until the trainer has put enough of those before. kClosed:
  /// the pool is closed, or the item is revoked, and may be marked as done unwritten.
  Status write(const SourceLeaf* leaves, Deadline deadline = kAtOnce) {
    if (areas_) return write_rows(leaves, deadline);
    slots_->write(hold_.position(), leaves);
    return Status::kOk;
  }

  /// Marks the example that was taken as done.
  void done() {
    hold_.finish();
    block_.header().done.notify();
  }

  /// Waits until the item is revoked: an example that could not be made must not be
  /// marked as done before.
  Status wait_revoked(Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed()) return {Status::kClosed};
      if (hold_.is_revoked()) return {Status::kOk};
      return {Status::kTimeout, &board().work};
    });
  }

 private:
  Worker(int control_block, std::uint64_t workers, std::uint64_t number,
         std::unique_ptr<const RingSlots> slots, std::unique_ptr<const RowsAreas> areas)
      : block_(control_block, workers),
        queue_(block_.queue(number)),
        number_(number),
        hold_(block_.board(), queue_, number),
        slots_(std::move(slots)),
        areas_(std::move(areas)) {}

  ItemBoard& board() const { return block_.board(); }
  bool is_closed() const {
    return block_.header().closed.load(std::memory_order_acquire);
  }

  Status write_rows(const SourceLeaf* leaves, Deadline deadline) {
    const std::uint64_t bytes = areas_->record().bytes_of(leaves);
    std::optional<std::uint64_t> place;
    const Status status = wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed() || hold_.is_revoked()) return {Status::kClosed};
      // Acquire: the trainer has read the examples of the entries below.
      const std::uint64_t read = queue_.read.load(std::memory_order_acquire);
      place = areas_->find(number_, {read, hold_.done()}, bytes);
      if (!place) return {Status::kTimeout, &queue_.room};
      return {Status::kOk};
    });
    if (status == Status::kOk)
      areas_->write(number_, hold_.done(), *place, bytes, leaves);
    return status;
  }

  const ControlBlock block_;
  DoneQueue& queue_;
  const std::uint64_t number_;
  WorkerHold<ItemBoard, DoneQueue> hold_;
  const std::unique_ptr<const RingSlots> slots_;
  const std::unique_ptr<const RowsAreas> areas_;  // in place of slots
};

}  // namespace echobuf::workers
