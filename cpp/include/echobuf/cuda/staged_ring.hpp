// The ring of a window on the device: producers claim positions and write them into
// staging; an uploader moves what they have committed to the window; draws see what
// has been sent there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "echobuf/cuda/sent_ring.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::cuda {

/// Positions are those of Ring. Position p lies in slot p % staging of the staging
/// ring until it is uploaded, and from then on in slot p % capacity of the window.
class StagedRing : public SentRing {
 public:
  StagedRing(std::uint64_t capacity, std::uint64_t staging)
      : StagedRing(capacity, staging, nullptr) {}

  /// `borrowed`: of staging slots that are borrowed, else null.
  StagedRing(std::uint64_t capacity, std::uint64_t staging,
             const BorrowedSlots* borrowed)
      : SentRing(borrowed ? RingShape::over(*borrowed, borrowed->slots)
                          : RingShape{.capacity = staging}),
        capacity_(capacity),
        released_(borrowed ? borrowed->first : 0) {}

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t slot(std::uint64_t position) const { return position % capacity_; }

  // ---- the uploader, one thread

  /// A run of positions that can be uploaded now, and lies in one piece on both sides.
  struct Run {
    std::uint64_t first;
    std::uint64_t count;  // 0: nothing to do yet
    bool skip;            // given up: it will not be drawn
    std::uint64_t freed;  // the window's slots are free up to here + capacity
  };
  Run next_run(std::uint64_t most) {
    const std::uint64_t first = uploaded();
    const std::uint64_t ready = staging_.committed() - first;
    const std::uint64_t over = given_up();
    if (first < over) return {first, std::min(ready, over - first), true, 0};
    // Acquire: pairs with release(); the draws' event is recorded.
    const std::uint64_t freed = released_.load(std::memory_order_acquire);
    const std::uint64_t room = freed + capacity_ - first;
    if (room < ready) held_back_.store(true, std::memory_order_relaxed);
    const std::uint64_t count =
        std::min({most, ready, room, capacity_ - first % capacity_,
                  staging_.capacity() - first % staging_.capacity()});
    return {first, count, false, freed};
  }

  /// Returns whether a run takes slots that draws may still read which have not been
  /// waited for: those given back from position `waited_for` on.
  bool reuses(const Run& run, std::uint64_t waited_for) const {
    return run.first + run.count > waited_for + capacity_;
  }

  /// Copies are done up to `position`: their staging slots may be written again.
  void arrived(std::uint64_t position) { staging_.release(position); }

  /// The event that the uploader waits for when there is no run: more records, if there
  /// are none, or room for them. Prepare, look again with next_run(), wait.
  EventCount& news() {
    const std::uint64_t first = uploaded();
    if (staging_.is_committed(first)) return window_room_;
    staging_.want(first);
    return staging_.filled();
  }

  // ---- the consumer, one at a time: it sees the window

  /// Gives back every slot below `position`.
  void release(std::uint64_t position) {
    if (position == released_.load(std::memory_order_relaxed)) return;
    record_draws();
    released_.store(position, std::memory_order_release);
    window_room_.notify();
  }
  std::uint64_t released() const { return released_.load(std::memory_order_relaxed); }

  bool held_back() const { return held_back_.load(std::memory_order_relaxed); }
  void clear_held_back() { held_back_.store(false, std::memory_order_relaxed); }

  /// Returns whether something is committed, and has room, that only has to be sent:
  /// that takes the uploader's time, not upstream's.
  bool behind() const {
    const std::uint64_t next = uploaded();
    return next < released() + capacity_ && staging_.is_committed(next) && !retired();
  }

  /// The position below which all that was committed by now lies, if there is room.
  std::uint64_t staged_end() const { return uploaded() + staging_.capacity(); }

  /// Returns whether staging has no room only because its records are on their way.
  bool clearing() const {
    return behind() || (staging_.released() < uploaded() && !retired());
  }

  // ---- either side

  void skip(std::uint64_t count) { staging_.skip(count); }

 private:
  const std::uint64_t capacity_;

  alignas(kNoSharing) std::atomic<std::uint64_t> released_;
  std::atomic<bool> held_back_{false};
};

}  // namespace echobuf::cuda
