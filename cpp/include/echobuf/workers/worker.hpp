// The side of a worker process: takes tickets and writes records into the ring's slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/sync/wait_for.hpp"
#include "echobuf/workers/board.hpp"

namespace echobuf::workers {

/// Of one thread.
class Worker {
 public:
  /// `slots`: of the trainer's ring, `capacity` of them.
  Worker(int board, std::uint64_t lanes, std::uint64_t lane, int slots,
         RecordLayout layout, std::uint64_t capacity)
      : board_(board, lanes),
        lane_(board_.lane(lane)),
        layout_(std::move(layout)),
        capacity_(capacity),
        slots_(slots, size_product(capacity, layout_.stride())),
        stream_(HostStore::streams(slots_.bytes())) {}

  const RecordLayout& layout() const { return layout_; }

  /// The index of the example to make now. kClosed: there will be no more.
  Status take(std::int64_t& index, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (board_.header().closed.load(std::memory_order_acquire))
        return {Status::kClosed};
      // Relaxed: our own. Acquire: pairs with Crew::give() and Crew::revoke().
      for (;;) {
        const std::uint64_t ticket = lane_.done.load(std::memory_order_relaxed);
        if (lane_.given.load(std::memory_order_acquire) == ticket)
          return {Status::kTimeout, &lane_.work};
        if (!is_revoked()) break;
        done();
      }
      index = current().index;
      return {Status::kOk};
    });
  }

  /// The number of the ticket that was taken, or that comes next.
  std::uint64_t ticket() const { return lane_.done.load(std::memory_order_relaxed); }

  /// Whether the ticket that was taken is not wanted any more.
  bool is_revoked() const {
    return lane_.done.load(std::memory_order_relaxed) <
           lane_.revoked.load(std::memory_order_acquire);
  }

  /// Waits until it is: what could not be made must not be called done before.
  Status wait_revoked(Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (board_.header().closed.load(std::memory_order_acquire))
        return {Status::kClosed};
      if (is_revoked()) return {Status::kOk};
      return {Status::kTimeout, &lane_.work};
    });
  }

  /// Writes the example of the ticket that was taken. One leaf for each field.
  void write(const SourceLeaf* leaves) {
    std::byte* slot = slots_.data() + current().position % capacity_ * layout_.stride();
    write_record(layout_, slot, leaves, 0, 0, stream_);
    if (stream_) finish_streaming();
  }

  /// The ticket that was taken is done.
  void done() {
    const std::uint64_t ticket = lane_.done.load(std::memory_order_relaxed);
    lane_.done.store(ticket + 1, std::memory_order_release);
    board_.header().done.notify();
  }

 private:
  const Ticket& current() const {
    return lane_.tickets[lane_.done.load(std::memory_order_relaxed) % Lane::kDepth];
  }

  Board board_;
  Lane& lane_;
  const RecordLayout layout_;
  const std::uint64_t capacity_;
  SharedMemory slots_;
  const RowCopy stream_;
};

}  // namespace echobuf::workers
