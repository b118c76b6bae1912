// The ring of a window on the device: producers claim positions and write records into
// staging; an uploader moves what they have committed to the window; draws see what has
// been sent there.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/store/ring.hpp"
#include "echobuf/store/staging_limits.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::cuda {

/// Positions are those of Ring. Position p lies in slot p % staged slots until it is
/// uploaded, and from then on in slot p % capacity of the window.
///
/// Producers see a ring of staging, whose slots are free again as copies arrive; the
/// uploader waits for room in the window. Where records have rows, producers claim
/// their places in the window, since who writes a record must say where its rows lie;
/// staging bounds these claims, and what is committed has room.
///
/// Producers of records that lie on the device claim in the same order, and need no
/// staging: they wait for room in the window themselves. A slot has room once the draws
/// of its last record are enqueued, and that record has arrived.
///
/// The uploader is one thread, and the consumer one at a time.
class StagedRing {
 public:
  using Extent = Ring::Extent;

  /// Of records without rows. `borrowed`: the staging slots, if another process has
  /// them; else null.
  StagedRing(std::uint64_t capacity, std::uint64_t staged_slots,
             const BorrowedSlots* borrowed = nullptr)
      : capacity_(capacity),
        staged_slots_(borrowed ? borrowed->slots : staged_slots),
        staged_units_(0),
        limits_(0, 0),
        ring_(borrowed ? RingShape::over(*borrowed, borrowed->slots)
                       : RingShape{.capacity = capacity, .room = staged_slots}),
        uploaded_(ring_.released()),
        arrived_(ring_.released()),
        released_(ring_.released()) {}

  /// Of records with rows: `units` of the window, and of its staging.
  StagedRing(std::uint64_t capacity, std::uint64_t units, std::uint64_t staged_slots,
             std::uint64_t staged_units)
      : capacity_(capacity),
        staged_slots_(staged_slots),
        staged_units_(staged_units),
        limits_(staged_slots, staged_units),
        ring_({.capacity = capacity, .units = units, .staging = &limits_}) {}

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t slot(std::uint64_t position) const { return position % capacity_; }
  Claims& claims() { return ring_.claims(); }
  /// Of host memory.
  std::size_t bytes() const { return Ring::bytes(ring_.capacity(), has_rows()); }

  // ---- producers, any number

  Ring::Claim claim(std::uint64_t want, std::uint64_t term,
                    const std::uint64_t* units = nullptr) {
    return ring_.claim(want, term, units);
  }
  bool is_over(std::uint64_t term) { return ring_.is_over(term); }
  bool has_room(std::uint64_t units = 0) const { return ring_.has_room(units); }
  std::uint64_t term() const { return ring_.term(); }
  void commit(std::uint64_t first, std::uint64_t count) { ring_.commit(first, count); }
  EventCount& room() { return ring_.room(); }

  // ---- producers of records on the device; `staged`: some fields lie on the host

  /// As claim().
  Ring::Claim claim_on_device(std::uint64_t want, std::uint64_t term,
                              const std::uint64_t* units, bool staged) {
    if (has_rows()) return ring_.claim(want, term, units);
    const auto claim = ring_.claim_below(limit_on_device(staged), want, term);
    if (claim.count < want) held_back_.store(true, std::memory_order_relaxed);
    return claim;
  }
  bool has_room_on_device(std::uint64_t units, bool staged) {
    return has_rows() ? ring_.has_room(units) : ring_.tail() < limit_on_device(staged);
  }
  /// The position below which copies are done.
  std::uint64_t arrived() const { return arrived_.load(std::memory_order_acquire); }
  /// What draws have given back. Acquire: their event is recorded.
  std::uint64_t freed() const { return released_.load(std::memory_order_acquire); }
  /// The event that they wait for. Prepare, look whether it is still this one and
  /// whether there is room, wait.
  EventCount& room_on_device() {
    return has_rows() || ring_.tail() < released_limit() ? room() : window_room_;
  }

  // ---- the uploader

  /// Positions that can be uploaded now.
  struct Run {
    std::uint64_t first;
    std::uint64_t count;  // 0: nothing to do yet
    bool skip;            // given up: it will not be drawn
    std::uint64_t freed;  // what was given back by then
  };
  Run next_run(std::uint64_t most) {
    const std::uint64_t first = uploaded();
    const std::uint64_t ready = ring_.committed() - first;
    // Acquire: pairs with settle().
    const std::uint64_t over = given_up_.load(std::memory_order_acquire);
    if (first < over) return {first, std::min(ready, over - first), true, 0};
    const std::uint64_t freed_by_now = freed();
    if (has_rows())
      return {first, rows_of_run(first, most, ready), false, freed_by_now};
    const std::uint64_t room = freed_by_now + capacity_ - first;
    if (room < ready) held_back_.store(true, std::memory_order_relaxed);
    // In one piece on both sides.
    const std::uint64_t count =
        std::min({most, ready, room, capacity_ - first % capacity_,
                  staged_slots_ - first % staged_slots_});
    return {first, count, false, freed_by_now};
  }

  /// Returns whether records up to `end` may take what draws still read which have not
  /// been waited for: of what was given back, up to `freed`, from position `waited_for`
  /// on.
  bool reuses(std::uint64_t end, std::uint64_t freed, std::uint64_t waited_for) const {
    if (has_rows()) return freed != waited_for;
    return end > waited_for + capacity_;
  }

  /// Waits until what is claimed below `end`, and being committed, is.
  void await_commit(std::uint64_t end) {
    while (ring_.committed() < end) std::this_thread::yield();
  }

  /// A run is on its way, or skipped: draws may be enqueued behind it.
  void sent(std::uint64_t end) {
    if (has_rows()) sent_place_ = claims().end_of(end - 1);
    // Release: pairs with the acquire in extent(); the run's event is recorded.
    uploaded_.store(end, std::memory_order_release);
    if (filled_.announce() && wanted_.load(std::memory_order_relaxed) < end)
      filled_.wake();
  }

  /// Copies are done up to `position`: their staging may be written again.
  void arrived(std::uint64_t position) {
    if (has_rows())
      limits_.release(position + staged_slots_,
                      claims().end_of(position - 1) + staged_units_);
    else
      ring_.release(position);
    // Release: pairs with the acquire in limit_on_device().
    arrived_.store(position, std::memory_order_release);
    room().notify();
  }

  /// The event that the uploader waits for when there is no run: more records, if there
  /// are none, or room for them. Prepare, look again with next_run(), wait.
  EventCount& news() {
    const std::uint64_t first = uploaded();
    if (!has_rows() && ring_.is_committed(first)) return window_room_;
    ring_.want(first);
    return ring_.filled();
  }

  // ---- the consumer: it sees the window

  Extent extent() {
    return ring_.extent([this] { return uploaded(); });
  }
  bool is_committed(std::uint64_t position) const { return position < uploaded(); }
  /// The end of what was put in the consumer's term by now, sent or not.
  std::uint64_t put_end() {
    return ring_
        .extent([this] {
          for (std::uint64_t end = std::max(put_end_, uploaded());; ++end) {
            // The next one may have been sent meanwhile, and its slot written again.
            while (!ring_.is_committed(end)) {
              const std::uint64_t sent = uploaded();
              if (sent <= end) return put_end_ = end;
              end = sent;
            }
          }
        })
        .committed;
  }
  void want(std::uint64_t position) {
    wanted_.store(position, std::memory_order_relaxed);
  }
  EventCount& filled() { return filled_; }

  /// `record`: to be called before slots are given back, by the thread that does it. It
  /// records the event behind the draws that read them.
  void before_release(std::function<void()> record) { record_ = std::move(record); }
  /// Gives back what is below `position`.
  void release(std::uint64_t position) {
    if (position == released()) return;
    if (record_) record_();
    released_.store(position, std::memory_order_release);  // before it is claimed again
    if (has_rows())
      ring_.release(position);
    else
      window_room_.notify();
  }
  std::uint64_t released() const {
    return has_rows() ? ring_.released() : released_.load(std::memory_order_relaxed);
  }

  /// True once since the last call if records had no room in the window.
  bool held_back() const {
    return has_rows() ? ring_.held_back() : held_back_.load(std::memory_order_relaxed);
  }
  void clear_held_back() {
    ring_.clear_held_back();
    held_back_.store(false, std::memory_order_relaxed);
  }

  /// Returns whether something is committed, and has room, that only has to be sent:
  /// that takes the uploader's time, not upstream's.
  bool behind() const {
    const std::uint64_t next = uploaded();
    return next < released() + capacity_ && ring_.is_committed(next) && !retired();
  }

  /// The position below which all that was committed by now lies, if there is room.
  std::uint64_t staged_end() const {
    return has_rows() ? tail() : uploaded() + staged_slots_;
  }

  /// Returns whether staging has no room only because its records are on their way.
  bool clearing() const { return behind() || (arrived() < uploaded() && !retired()); }

  void cross_border() { ring_.cross_border(); }

  // ---- either side

  void close() {
    ring_.close();
    filled_.notify();  // a consumer looks whether that was the end
    window_room_.notify();
  }
  bool closed() const { return ring_.closed(); }
  std::optional<std::uint64_t> end() const { return ring_.end(); }
  std::uint64_t tail() const { return ring_.tail(); }
  void reopen() { ring_.reopen(); }
  void reopen_ahead() { ring_.reopen_ahead(); }
  bool opened_ahead() const { return ring_.opened_ahead(); }
  void skip(std::uint64_t count) {
    if (has_rows())  // see Claims::skip()
      released_.store(tail(), std::memory_order_release);
    ring_.skip(count);
  }

  void wake_all() {
    ring_.wake_all();
    filled_.notify();
    window_room_.notify();
  }

  /// Notes that the uploader has ended: no thread may wait for it to send.
  void retire() { retired_.store(true, std::memory_order_release); }

  /// Waits until nothing below `end` is on its way any more; the consumer rests, and
  /// what it has not drawn is given up. The uploader goes over it without copying.
  void settle(std::uint64_t end) {
    given_up_.store(end, std::memory_order_release);
    while (uploaded() < end && !retired()) {
      wake_all();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 private:
  bool has_rows() const { return staged_units_ > 0; }
  std::uint64_t uploaded() const { return uploaded_.load(std::memory_order_acquire); }
  bool retired() const { return retired_.load(std::memory_order_acquire); }

  /// The position below which slots have been given back.
  std::uint64_t released_limit() const { return freed() + capacity_; }
  std::uint64_t limit_on_device(bool staged) {
    const std::uint64_t limit = std::min(released_limit(), arrived() + capacity_);
    return staged ? std::min(limit, ring_.claims().limit()) : limit;
  }

  /// An eighth of staging at a time: what has arrived is free while more is sent.
  std::uint64_t rows_of_run(std::uint64_t first, std::uint64_t most,
                            std::uint64_t ready) {
    const std::uint64_t end = sent_place_ + staged_units_ / 8;
    std::uint64_t count = 0;
    while (count < std::min(most, ready) &&
           (count == 0 || claims().end_of(first + count) <= end))
      ++count;
    return count;
  }

  const std::uint64_t capacity_;  // of the window
  const std::uint64_t staged_slots_;
  const std::uint64_t staged_units_;  // 0: records have no rows

  StagingLimits limits_;  // of claims in the window
  Ring ring_;             // that producers see
  EventCount window_room_;

  alignas(kNoSharing) std::atomic<std::uint64_t> uploaded_{0};
  std::uint64_t sent_place_ = 0;  // the uploader's own: where the payload sent ends
  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<bool> held_back_{false};
  EventCount filled_;

  alignas(kNoSharing) std::atomic<std::uint64_t> released_{0};
  std::atomic<std::uint64_t> wanted_{0};
  std::uint64_t put_end_ = 0;  // the consumer's own, as what follows
  std::function<void()> record_;
  alignas(kNoSharing) std::atomic<std::uint64_t> given_up_{0};
  std::atomic<bool> retired_{false};
};

}  // namespace echobuf::cuda
