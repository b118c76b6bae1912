// Memory that a trainer and its worker processes share beside the slots: the queue of
// each worker, and its progress; and the items of workers that are held to no order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>

#include "echobuf/shared/item_board.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/version.hpp"

namespace echobuf::workers {

/// One example to make, and its position in the ring.
struct Ticket {
  std::int64_t index;
  std::uint64_t position;
};

/// The tickets of one worker, in order. Ticket t lies at t % kDepth. One that is
/// submitted stays until it is done: the process that takes a dead worker's place goes
/// on with its tickets.
///
/// Where workers take items from the board, the queue is the list of what its worker
/// has done: ticket t is the t-th item, by its number, and the number of its place.
/// `submitted` then counts those that the trainer has read, which are free again.
struct WorkerQueue {
  static constexpr std::uint64_t kDepth = 64;

  // Written by the trainer. Release: pairs with the worker's acquire; the ticket comes
  // with it.
  std::atomic<std::uint64_t> submitted{0};
  // Tickets below are revoked: workers mark them as done unmade.
  std::atomic<std::uint64_t> revoked{0};
  EventCount work{true};  // more was submitted or revoked
  std::array<Ticket, kDepth> tickets{};
  // Written by the worker. Release: pairs with the trainer's acquire; the slot's bytes
  // come with it.
  alignas(kNoSharing) std::atomic<std::uint64_t> done{0};
};

/// Lies in front of the queues.
struct Header {
  static constexpr std::uint64_t kMagic = 0x3176726b77626365;  // "ecbwkrv1"

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t queues = 0;
  std::atomic<std::uint32_t> closed{0};  // 1: workers are to end
  alignas(kNoSharing) EventCount done{true};
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A header and the queues of all workers, in shared memory without a name.
class ControlBlock {
 public:
  explicit ControlBlock(std::uint64_t queues)
      : queues_(queues), memory_(bytes(queues)), header_(new(memory_.data()) Header) {
    for (std::uint64_t i = 0; i < queues; ++i) new (at(i)) WorkerQueue;
    // Not its items: they are zeros already.
    new (&board().work) EventCount(true);
    header_->queues = queues;
  }

  /// Maps the control block of another process. Throws what SharedMemory throws, and
  /// std::invalid_argument for memory that is no control block of so many workers, or
  /// that of another version of echobuf.
  ControlBlock(int fd, std::uint64_t queues)
      : queues_(queues),
        memory_(fd, bytes(queues)),
        header_(std::launder(reinterpret_cast<Header*>(memory_.data()))) {
    if (header_->magic != Header::kMagic || header_->queues != queues)
      throw std::invalid_argument("this is no control block of so many workers");
    if (header_->version != kVersion)
      throw std::invalid_argument("the trainer has another version of echobuf");
  }

  int fd() const { return memory_.fd(); }
  std::uint64_t queues() const { return header_->queues; }
  Header& header() const { return *header_; }
  WorkerQueue& queue(std::uint64_t i) const {
    return *std::launder(reinterpret_cast<WorkerQueue*>(at(i)));
  }
  ItemBoard& board() const {
    return *std::launder(reinterpret_cast<ItemBoard*>(at(queues_)));
  }

 private:
  static std::size_t bytes(std::uint64_t queues) {
    return sizeof(Header) + queues * sizeof(WorkerQueue) + sizeof(ItemBoard);
  }
  void* at(std::uint64_t i) const {
    return memory_.data() + sizeof(Header) + i * sizeof(WorkerQueue);
  }

  const std::uint64_t queues_;
  SharedMemory memory_;
  Header* header_;
};

}  // namespace echobuf::workers
