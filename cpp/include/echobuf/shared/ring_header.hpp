// Memory that a server and its jobs share beside the slots: the progress of upstream,
// and that of each job.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "echobuf/store/ring.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/shared_window.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/version.hpp"

namespace echobuf::serve {

/// Nanoseconds of the monotonic clock, which all processes of a machine share.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Clock::now().time_since_epoch())
      .count();
}

/// The shared state of one job.
struct Seat {
  enum State : std::uint32_t { kFree, kWaiting, kTaken };

  // Written by the server. The holder's number changes when a job attaches, and when it
  // leaves or is dropped: a job may read slots only while the number is its own.
  std::atomic<std::uint64_t> holder{0};
  std::atomic<std::uint32_t> state{kFree};
  std::uint64_t first_epoch = 0;  // the job's first; valid with the state kTaken
  std::uint64_t base = 0;         // position at which that begins
  // Written by the job. Release: pairs with the server's acquire; the job's reads are
  // done.
  alignas(kNoSharing) std::atomic<std::uint64_t> released{0};  // reads none below
  std::atomic<std::uint64_t> left{0};                          // reads no epoch below
  std::atomic<std::uint64_t> taken{0};  // positions below have entered its window
  std::atomic<std::int64_t> heartbeat_ns{0};
};

/// Everything but the slots. It outlives the server as long as a job has it mapped.
struct RingHeader {
  static constexpr std::uint64_t kMagic = 0x3176726573626365;  // "ecbserv1"
  static constexpr std::uint64_t kSeats = 64;
  static constexpr std::uint64_t kEnds = 64;  // epochs that the server may be ahead
  enum Phase : std::uint32_t { kOpen, kOver, kFailed };

  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t slots = 0;
  std::uint64_t stride = 0;
  // Of records that differ in length: see SharedWindow. `most`: bytes of their rows.
  std::uint64_t fields = 0;
  std::uint64_t unit = 0;
  std::uint64_t units = 0;
  std::uint64_t most = 0;
  std::array<unsigned char, 16> session{};
  std::atomic<std::uint32_t> phase{kOpen};
  std::array<char, 1024> reason{};  // upstream failed; with the phase
  // Written by the server. Release: pairs with the jobs' acquire.
  alignas(kNoSharing) std::atomic<std::uint64_t> published{
      0};                               // records below are there
  std::atomic<std::uint64_t> begun{0};  // epochs
  std::atomic<std::uint64_t> ended{0};
  std::array<std::atomic<std::uint64_t>, kEnds> ends{};  // of epoch i at i % kEnds
  EventCount news{true};                                 // jobs wait for this
  alignas(kNoSharing) EventCount room{true};             // and the server for this
  std::array<Seat, kSeats> seats{};

  SharedWindow window() const { return {slots, stride, fields, unit, units}; }

  /// The position at which epoch `i` ends, which ended less than kEnds epochs ago.
  std::uint64_t end_of(std::uint64_t i) const {
    return ends[i % kEnds].load(std::memory_order_acquire);
  }
  /// The position at which epoch `i` begins; the epoch before ended less than kEnds
  /// epochs ago.
  std::uint64_t base_of(std::uint64_t i) const { return i == 0 ? 0 : end_of(i - 1); }
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A RingHeader in shared memory without a name.
class MappedHeader {
 public:
  MappedHeader()
      : memory_(sizeof(RingHeader)), header_(new(memory_.data()) RingHeader) {}

  /// Maps the header of another process. Throws what SharedMemory throws, and
  /// std::invalid_argument for memory that holds no header, or that of another version
  /// of echobuf.
  explicit MappedHeader(int fd)
      : memory_(fd, sizeof(RingHeader)),
        header_(std::launder(reinterpret_cast<RingHeader*>(memory_.data()))) {
    if (header_->magic != RingHeader::kMagic)
      throw std::invalid_argument("this is not what a server and its jobs share");
    if (header_->version != kVersion)
      throw std::invalid_argument("the server has another version of echobuf");
  }

  int fd() const { return memory_.fd(); }
  RingHeader& operator*() const { return *header_; }
  RingHeader* operator->() const { return header_; }

 private:
  SharedMemory memory_;
  RingHeader* header_;
};

}  // namespace echobuf::serve
