// The ring of a window on the device whose records differ in length: producers claim
// positions and places of the window, and write records into staging; an uploader
// brings them to the same places of the window; draws see what has been sent there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "echobuf/cuda/sent_ring.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/staging_limits.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::cuda {

class StagedPayloadRing : public SentRing {
 public:
  /// Of the window, and of its staging.
  StagedPayloadRing(std::uint64_t capacity, std::uint64_t units,
                    std::uint64_t staged_slots, std::uint64_t staged_units)
      : SentRing({.capacity = capacity, .units = units, .staging = &limits_}),
        staged_slots_(staged_slots),
        staged_units_(staged_units),
        limits_(staged_slots, staged_units) {}

  std::uint64_t capacity() const { return staging_.capacity(); }
  std::uint64_t slot(std::uint64_t position) const { return staging_.slot(position); }
  static std::size_t bytes(std::uint64_t capacity) {
    return Ring::bytes(capacity, true);
  }

  // ---- the uploader, one thread

  struct Run {
    std::uint64_t first;
    std::uint64_t count;  // 0: nothing to do yet
    bool skip;            // given up: it will not be drawn
    std::uint64_t freed;  // what was given back by then
  };
  Run next_run(std::uint64_t most) {
    const std::uint64_t first = uploaded();
    const std::uint64_t ready = staging_.committed() - first;
    const std::uint64_t over = given_up();
    if (first < over) return {first, std::min(ready, over - first), true, 0};
    // Acquire: pairs with release(); the draws' event is recorded.
    const std::uint64_t freed = released_.load(std::memory_order_acquire);
    // An eighth of staging at a time: what has arrived is free while more is sent.
    const std::uint64_t end = sent_place_ + staged_units_ / 8;
    std::uint64_t count = 0;
    while (count < std::min(most, ready) &&
           (count == 0 || claims().end_of(first + count) <= end))
      ++count;
    return {first, count, false, freed};
  }

  /// Returns whether a run may take what draws still read which have not been waited
  /// for: of what was given back from position `waited_for` on.
  static bool reuses(const Run& run, std::uint64_t waited_for) {
    return run.freed != waited_for;
  }

  void sent(std::uint64_t end) {
    sent_place_ = claims().end_of(end - 1);
    SentRing::sent(end);
  }

  /// Copies are done up to `position`: their staging may be written again.
  void arrived(std::uint64_t position) {
    limits_.release(position + staged_slots_,
                    claims().end_of(position - 1) + staged_units_);
    arrived_.store(position, std::memory_order_release);
    room().notify();
  }

  /// The event that the uploader waits for when there is no run: more records.
  EventCount& news() {
    staging_.want(uploaded());
    return staging_.filled();
  }

  // ---- the consumer, one at a time

  /// Gives back what is below `position`.
  void release(std::uint64_t position) {
    if (position == staging_.released()) return;
    record_draws();
    released_.store(position, std::memory_order_release);  // before it is claimed again
    staging_.release(position);
  }
  std::uint64_t released() const { return staging_.released(); }

  bool held_back() const { return staging_.held_back(); }
  void clear_held_back() { staging_.clear_held_back(); }

  /// Returns whether something is committed that only has to be sent: that takes the
  /// uploader's time, not upstream's.
  bool behind() const { return staging_.is_committed(uploaded()) && !retired(); }

  std::uint64_t staged_end() const { return tail(); }

  /// Returns whether staging has no room only because its records are on their way.
  bool clearing() const {
    return behind() ||
           (arrived_.load(std::memory_order_acquire) < uploaded() && !retired());
  }

  // ---- either side

  void skip(std::uint64_t count) {
    released_.store(tail(), std::memory_order_release);  // see Claims::skip()
    staging_.skip(count);
  }

 private:
  const std::uint64_t staged_slots_;
  const std::uint64_t staged_units_;
  StagingLimits limits_;

  std::uint64_t sent_place_ = 0;  // the uploader's own: where the payload sent ends
  alignas(kNoSharing) std::atomic<std::uint64_t> arrived_{0};
  std::atomic<std::uint64_t> released_{0};
};

}  // namespace echobuf::cuda
