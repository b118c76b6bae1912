// Memory that a trainer and its worker processes share beside the slots: the items to
// be made, and what each worker is done with.
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

/// The number of an item that a worker is done with, and the number of its place; kNone
/// for an item that was not written to the ring.
struct DoneItem {
  std::uint64_t item;
  std::uint64_t place;
};

/// What one worker is done with, in order, until the trainer has read it. Entry t lies
/// at t % kDepth.
template <std::uint64_t kSize>
struct BasicDoneQueue {
  static constexpr std::uint64_t kDepth = kSize;

  // Written by the trainer. Release: pairs with the worker's acquire; entries below are
  // free again, and what the worker has left in its area for them.
  std::atomic<std::uint64_t> read{0};
  EventCount room{true};  // more was read, or items were revoked
  std::array<DoneItem, kDepth> entries{};
  // Written by the worker. Release: pairs with the trainer's acquire; the entry comes
  // with it, and the example.
  alignas(kNoSharing) std::atomic<std::uint64_t> done{0};
};
using DoneQueue = BasicDoneQueue<64>;

/// Lies in front of the queues.
struct Header {
  static constexpr std::uint64_t kMagic = 0x3176726b77626365;  // "ecbwkrv1"

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t workers = 0;
  std::atomic<std::uint32_t> closed{0};  // 1: workers are to end
  alignas(kNoSharing) EventCount done{true};
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A header, the queues of all workers, and the board, in shared memory without a name.
class ControlBlock {
 public:
  explicit ControlBlock(std::uint64_t workers)
      : workers_(workers),
        memory_(bytes(workers)),
        header_(new(memory_.data()) Header) {
    for (std::uint64_t i = 0; i < workers; ++i) new (at(i)) DoneQueue;
    // Not its items: they are zeros already.
    new (&board().work) EventCount(true);
    header_->workers = workers;
  }

  /// Maps the control block of another process. Throws what SharedMemory throws, and
  /// std::invalid_argument for memory that is no control block of so many workers, or
  /// that of another version of echobuf.
  ControlBlock(int fd, std::uint64_t workers)
      : workers_(workers),
        memory_(fd, bytes(workers)),
        header_(std::launder(reinterpret_cast<Header*>(memory_.data()))) {
    if (header_->magic != Header::kMagic || header_->workers != workers)
      throw std::invalid_argument("this is no control block of so many workers");
    if (header_->version != kVersion)
      throw std::invalid_argument("the trainer has another version of echobuf");
  }

  int fd() const { return memory_.fd(); }
  std::uint64_t workers() const { return workers_; }
  Header& header() const { return *header_; }
  DoneQueue& queue(std::uint64_t i) const {
    return *std::launder(reinterpret_cast<DoneQueue*>(at(i)));
  }
  ItemBoard& board() const {
    return *std::launder(reinterpret_cast<ItemBoard*>(at(workers_)));
  }

 private:
  static std::size_t bytes(std::uint64_t workers) {
    return sizeof(Header) + workers * sizeof(DoneQueue) + sizeof(ItemBoard);
  }
  void* at(std::uint64_t i) const {
    return memory_.data() + sizeof(Header) + i * sizeof(DoneQueue);
  }

  const std::uint64_t workers_;
  SharedMemory memory_;
  Header* header_;
};

}  // namespace echobuf::workers
