// A job's upstream: published records enter the job's ring, which lies over the
// server's slots; nothing is copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "echobuf/shared/client_slot.hpp"
#include "echobuf/shared/record_sink.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::serve {

/// The outcome of RingReader::read().
enum class ReadResult : int {
  kEnded = 0,  // all of it is in the ring
  kTimeout,    // not yet
  kClosed,     // the ring takes no more of it: the term has ended
  kDropped,    // the server has dropped the job
  kOver,       // the server has ended, and this epoch with it
  kFailed,     // upstream failed
  kMisfit,     // the buffer cannot draw a record: see RingReader::misfit()
};

/// Follows a server's epochs for a buffer with borrowed slots. One thread at a time.
class RingReader {
 public:
  RingReader(std::unique_ptr<RecordSink> buffer, std::shared_ptr<ClientSlot> client)
      : buffer_(std::move(buffer)), slot_(std::move(client)) {}

  /// The number of positions that the buffer must skip when it is reset, so that the
  /// epoch at the server's position `base` falls on the right slots.
  std::uint64_t gap(std::uint64_t base) const {
    const std::uint64_t slots = slot_->header().slots;
    return (base % slots + slots - buffer_->tail() % slots) % slots;
  }

  /// Begins at the server's position `base` the buffer's epoch that was just opened.
  void begin(std::uint64_t base) {
    position_ = base;
    slot_->shift(base - buffer_->tail());
  }

  /// Commits the published records of `epoch` to the ring, until it ends. After
  /// kMisfit, settle() must follow.
  ReadResult read(std::uint64_t term, std::uint64_t epoch, Deadline deadline) {
    RingHeader& header = slot_->header();
    for (;;) {
      const std::uint32_t key = header.news.prepare();
      if (!slot_->is_held()) return ReadResult::kDropped;
      // `ended` is read last: if it is false, all that was published before belongs to
      // this epoch or an earlier one, and a server that has ended left it unfinished.
      const std::uint32_t phase = header.phase.load(std::memory_order_acquire);
      std::uint64_t end = header.published.load(std::memory_order_acquire);
      const bool ended = header.ended.load(std::memory_order_acquire) > epoch;
      if (ended) end = header.end_of(epoch);
      if (position_ == end) {
        if (ended) return ReadResult::kEnded;
        if (phase == RingHeader::kFailed) return ReadResult::kFailed;
        if (phase == RingHeader::kOver) return ReadResult::kOver;
        if (Clock::now() >= deadline) return ReadResult::kTimeout;
        header.news.wait(key, deadline);
        continue;
      }
      const Status status = take(term, end, deadline);
      if (status == Status::kClosed) return ReadResult::kClosed;
      if (status == Status::kFailed) return ReadResult::kMisfit;
      if (status != Status::kOk) return ReadResult::kTimeout;
    }
  }

  Misfit misfit() const { return buffer_->misfit(); }
  /// Commits the records that were found with one that cannot be drawn: once the term
  /// has failed, so that they are not served.
  void settle() {
    if (unsettled_ > 0) commit(first_unsettled_, std::exchange(unsettled_, 0));
  }

  std::uint64_t term() const { return buffer_->term(); }
  std::uint64_t position() const { return position_; }

 private:
  Status take(std::uint64_t term, std::uint64_t end, Deadline deadline) {
    while (position_ < end) {
      std::uint64_t first = 0;
      std::uint64_t count = end - position_;
      const Status status = buffer_->claim(term, first, count, deadline);
      if (status != Status::kOk) return status;
      if (buffer_->misfit().kind != Misfit::kNone) {
        first_unsettled_ = first;
        unsettled_ = count;
        return Status::kFailed;
      }
      commit(first, count);
    }
    return Status::kOk;
  }

  void commit(std::uint64_t first, std::uint64_t count) {
    buffer_->commit(first, count);
    position_ += count;
    if (slot_->is_held())
      slot_->seat().taken.store(position_, std::memory_order_relaxed);
  }

  const std::unique_ptr<RecordSink> buffer_;
  const std::shared_ptr<ClientSlot> slot_;
  std::uint64_t position_ = 0;  // of the server, of the next record
  std::uint64_t first_unsettled_ = 0;
  std::uint64_t unsettled_ = 0;  // positions that are claimed
};

}  // namespace echobuf::serve
