// What a trainer and its worker processes share beside the slots: which example each
// worker is to make next, and how far it has come.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>

#include "echobuf/store/ring.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::workers {

/// One example to make, and the position of the ring that it goes to.
struct Ticket {
  std::int64_t index;
  std::uint64_t position;
};

/// The tickets of one worker, in order. Ticket t lies at t % kDepth. One that is given
/// stays until it is done, whichever process does it: a worker that dies leaves to the
/// next one what it has not done.
struct Lane {
  static constexpr std::uint64_t kDepth = 64;

  // Of the trainer. Release: pairs with the worker's acquire; the ticket comes with it.
  std::atomic<std::uint64_t> given{0};
  // Tickets below are not to be made any more, only to be called done.
  std::atomic<std::uint64_t> revoked{0};
  EventCount work{true};  // more was given or revoked
  std::array<Ticket, kDepth> tickets{};
  // Of the worker. Release: pairs with the trainer's acquire; the slot's bytes come
  // with it.
  alignas(kNoSharing) std::atomic<std::uint64_t> done{0};
};

/// In front of the lanes.
struct Header {
  static constexpr std::uint64_t kMagic = 0x3176726b77626365;  // "ecbwkrv1"

  std::uint64_t magic = kMagic;
  std::uint64_t lanes = 0;
  std::atomic<std::uint32_t> closed{0};  // workers are to end
  alignas(kNoSharing) EventCount done{true};
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The board, in memory of its own.
class Board {
 public:
  explicit Board(std::uint64_t lanes)
      : memory_(bytes(lanes)), header_(new(memory_.data()) Header) {
    for (std::uint64_t i = 0; i < lanes; ++i) new (at(i)) Lane;
    header_->lanes = lanes;
  }

  /// Of another process. Throws what SharedMemory throws, and std::invalid_argument for
  /// memory that is no board.
  Board(int fd, std::uint64_t lanes)
      : memory_(fd, bytes(lanes)),
        header_(std::launder(reinterpret_cast<Header*>(memory_.data()))) {
    if (header_->magic != Header::kMagic || header_->lanes != lanes)
      throw std::invalid_argument("this is no board of so many workers");
  }

  int fd() const { return memory_.fd(); }
  std::uint64_t lanes() const { return header_->lanes; }
  Header& header() const { return *header_; }
  Lane& lane(std::uint64_t i) const {
    return *std::launder(reinterpret_cast<Lane*>(at(i)));
  }

 private:
  static std::size_t bytes(std::uint64_t lanes) {
    return sizeof(Header) + lanes * sizeof(Lane);
  }
  void* at(std::uint64_t i) const {
    return memory_.data() + sizeof(Header) + i * sizeof(Lane);
  }

  SharedMemory memory_;
  Header* header_;
};

}  // namespace echobuf::workers
