// A job's upstream: what the server has published enters the ring, which lies over the
// same slots; nothing is copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/serve/feed.hpp"
#include "echobuf/serve/place.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::serve {

/// What came of following an epoch for a while.
enum class Followed : int {
  kEnded = 0,  // all of it is in the ring
  kTimeout,    // not yet
  kClosed,     // the ring takes no more of it: the term has ended
  kDropped,    // the job has lost its place
  kOver,       // the server has ended, this epoch too
  kFailed,     // upstream failed
};

/// `Core`: a BasicBuffer with lent slots. One thread at a time.
template <class Core>
class Follower {
 public:
  Follower(std::shared_ptr<Core> buffer, std::shared_ptr<Place> place)
      : buffer_(std::move(buffer)), place_(std::move(place)) {}

  /// How many positions the buffer must pass over when it is reset, for the epoch at
  /// the server's position `base` to lie in the slots that it is in.
  std::uint64_t gap(std::uint64_t base) const {
    const std::uint64_t slots = place_->header().slots;
    return (base % slots + slots - buffer_->tail() % slots) % slots;
  }

  /// The buffer's epoch that has just been begun, or opened ahead, begins at `base`.
  void begin(std::uint64_t base) {
    position_ = base;
    place_->shift(base - buffer_->tail());
  }

  /// Brings what there is of `epoch` into the ring.
  Followed follow(std::uint64_t term, std::uint64_t epoch, Deadline deadline) {
    Header& header = place_->header();
    for (;;) {
      const std::uint32_t key = header.news.prepare();
      if (!place_->is_held()) return Followed::kDropped;
      // Last whether it has ended: if not, then what was published before is all of
      // this epoch or one before, and a server that is through has left it unfinished.
      const std::uint32_t phase = header.phase.load(std::memory_order_acquire);
      std::uint64_t end = header.published.load(std::memory_order_acquire);
      const bool ended = header.ended.load(std::memory_order_acquire) > epoch;
      if (ended) end = header.end_of(epoch);
      if (position_ == end) {
        if (ended) return Followed::kEnded;
        if (phase == Header::kFailed) return Followed::kFailed;
        if (phase == Header::kOver) return Followed::kOver;
        if (Clock::now() >= deadline) return Followed::kTimeout;
        header.news.wait(key, deadline);
        continue;
      }
      const Status status = take(term, end, deadline);
      if (status == Status::kClosed) return Followed::kClosed;
      if (status != Status::kOk) return Followed::kTimeout;
    }
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
      buffer_->commit(first, count);
      position_ += count;
      if (place_->is_held())
        place_->seat().taken.store(position_, std::memory_order_relaxed);
    }
    return Status::kOk;
  }

  const std::shared_ptr<Core> buffer_;
  const std::shared_ptr<Place> place_;
  std::uint64_t position_ = 0;  // the server's, of what comes next
};

}  // namespace echobuf::serve
