// The ring of a window on the device whose records differ in length: producers claim
// positions and places of the window, and write records into staging; an uploader
// brings them to the same places of the window; draws see what has been sent there.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "echobuf/store/ring.hpp"
#include "echobuf/store/staging_limits.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::cuda {

class StagedPayloadRing {
 public:
  using Extent = PayloadRing::Extent;

  /// Of the window, and of its staging.
  StagedPayloadRing(std::uint64_t capacity, std::uint64_t units,
                    std::uint64_t staged_slots, std::uint64_t staged_units)
      : staged_slots_(staged_slots),
        staged_units_(staged_units),
        limits_(staged_slots, staged_units),
        ring_(capacity, units, 0, 0, &limits_) {}

  std::uint64_t capacity() const { return ring_.capacity(); }
  std::uint64_t slot(std::uint64_t position) const { return ring_.slot(position); }
  static std::size_t bytes(std::uint64_t capacity) {
    return PayloadRing::bytes(capacity);
  }

  // ---- producers, any number

  std::uint64_t term() const { return ring_.term(); }
  PayloadClaims& claims() { return ring_.claims(); }
  void commit(std::uint64_t first, std::uint64_t count) { ring_.commit(first, count); }
  EventCount& room() { return ring_.room(); }

  // ---- the uploader, one thread

  struct Run {
    std::uint64_t first;
    std::uint64_t count;  // 0: nothing to do yet
    bool skip;            // given up: it will not be drawn
    std::uint64_t freed;  // what was given back by then
  };
  Run next_run(std::uint64_t most) {
    const std::uint64_t first = uploaded_.load(std::memory_order_relaxed);
    const std::uint64_t ready = ring_.committed() - first;
    // Acquire: pairs with settle().
    const std::uint64_t given_up = given_up_.load(std::memory_order_acquire);
    if (first < given_up) return {first, std::min(ready, given_up - first), true, 0};
    // Acquire: pairs with release(); the draws' event is recorded.
    const std::uint64_t freed = released_.load(std::memory_order_acquire);
    // An eighth of staging at a time: what has arrived is free while more is sent.
    const std::uint64_t end = sent_place_ + staged_units_ / 8;
    std::uint64_t count = 0;
    while (count < std::min(most, ready) &&
           (count == 0 || ring_.claims().end_of(first + count) <= end))
      ++count;
    return {first, count, false, freed};
  }

  /// Returns whether a run may take what draws still read which have not been waited
  /// for: of what was given back from position `waited_for` on.
  static bool reuses(const Run& run, std::uint64_t waited_for) {
    return run.freed != waited_for;
  }

  void sent(std::uint64_t end) {
    sent_place_ = ring_.claims().end_of(end - 1);
    // Release: pairs with the acquire in extent(); the run's event is recorded.
    uploaded_.store(end, std::memory_order_release);
    if (filled_.announce() && wanted_.load(std::memory_order_relaxed) < end)
      filled_.wake();
  }

  /// Copies are done up to `position`: their staging may be written again.
  void arrived(std::uint64_t position) {
    limits_.release(position + staged_slots_,
                    ring_.claims().end_of(position - 1) + staged_units_);
    arrived_.store(position, std::memory_order_release);
    room().notify();
  }

  /// The event that the uploader waits for when there is no run: more records.
  EventCount& news() {
    ring_.want(uploaded_.load(std::memory_order_relaxed));
    return ring_.filled();
  }

  // ---- the consumer, one at a time

  Extent extent() {
    return ring_.extent([this] { return uploaded_.load(std::memory_order_acquire); });
  }
  bool is_committed(std::uint64_t position) const {
    return position < uploaded_.load(std::memory_order_acquire);
  }
  void want(std::uint64_t position) {
    wanted_.store(position, std::memory_order_relaxed);
  }
  EventCount& filled() { return filled_; }

  /// Gives back what is below `position`, once the last event of draws is recorded.
  void release(std::uint64_t position) {
    if (position == ring_.released()) return;
    released_.store(position, std::memory_order_release);  // before it is claimed again
    ring_.release(position);
  }
  std::uint64_t released() const { return ring_.released(); }

  bool held_back() const { return ring_.held_back(); }
  void clear_held_back() { ring_.clear_held_back(); }

  /// Returns whether something is committed that only has to be sent: that takes the
  /// uploader's time, not upstream's.
  bool behind() const {
    return ring_.is_committed(uploaded_.load(std::memory_order_acquire)) &&
           !retired_.load(std::memory_order_acquire);
  }
  /// Returns whether staging has no room only because its records are on their way.
  bool clearing() const {
    return behind() || (arrived_.load(std::memory_order_acquire) <
                            uploaded_.load(std::memory_order_acquire) &&
                        !retired_.load(std::memory_order_acquire));
  }

  void cross_border() { ring_.cross_border(); }

  // ---- either side

  void close() {
    ring_.close();
    filled_.notify();  // a consumer looks whether that was the end
  }
  void wake_all() {
    ring_.wake_all();
    filled_.notify();
  }
  bool closed() const { return ring_.closed(); }
  std::optional<std::uint64_t> end() const { return ring_.end(); }
  std::uint64_t tail() const { return ring_.tail(); }
  void skip(std::uint64_t count) {
    released_.store(tail(), std::memory_order_release);  // see PayloadClaims::skip()
    ring_.skip(count);
  }
  void reopen() { ring_.reopen(); }
  void reopen_ahead() { ring_.reopen_ahead(); }
  bool opened_ahead() const { return ring_.opened_ahead(); }

  /// Notes that the uploader has ended: no thread may wait for it to send.
  void retire() { retired_.store(true, std::memory_order_release); }

  /// See StagedRing.
  void settle(std::uint64_t end) {
    given_up_.store(end, std::memory_order_release);
    while (uploaded_.load(std::memory_order_acquire) < end &&
           !retired_.load(std::memory_order_acquire)) {
      wake_all();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  const std::uint64_t staged_slots_;
  const std::uint64_t staged_units_;
  StagingLimits limits_;
  PayloadRing ring_;

  alignas(kNoSharing) std::atomic<std::uint64_t> uploaded_{0};
  std::atomic<std::uint64_t> arrived_{0};
  std::uint64_t sent_place_ = 0;  // the uploader's own: where the payload sent ends
  EventCount filled_;
  std::atomic<std::uint64_t> wanted_{0};
  alignas(kNoSharing) std::atomic<std::uint64_t> released_{0};
  std::atomic<std::uint64_t> given_up_{0};
  std::atomic<bool> retired_{false};
};

}  // namespace echobuf::cuda
