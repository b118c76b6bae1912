// A bounded multi-producer ring of slots: which may be written, and which are complete.
// It holds no data: the stores do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Positions count slots for ever; position p lies in slot p % capacity. Producers
/// claim a run of positions, write its slots and commit it; the one consumer at a time
/// reads the committed prefix and releases slots in order.
class Ring {
 public:
  using Claim = Claims::Claim;

  explicit Ring(const RingShape& shape)
      : capacity_(shape.capacity),
        slot_owner_(shape.slot_owner),
        laps_(std::make_unique<std::atomic<std::uint32_t>[]>(shape.capacity)),
        claims_(shape),
        committed_(shape.first) {}
  /// Of records without rows.
  explicit Ring(std::uint64_t capacity) : Ring(RingShape{capacity}) {}

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t slot(std::uint64_t position) const { return position % capacity_; }
  static std::size_t bytes(std::uint64_t capacity, bool has_payload) {
    return capacity *
           (sizeof(std::atomic<std::uint32_t>) + (has_payload ? Claims::kBytes : 0));
  }

  // ---- producers, any number

  /// Changes whenever the ring is opened again; a put belongs to one term.
  std::uint64_t term() const { return claims_.term(); }

  /// Takes up to `want` positions that may be written now; fewer when nearly full.
  /// `units`: see Claims.
  Claim claim(std::uint64_t want, std::uint64_t term,
              const std::uint64_t* units = nullptr) {
    return claims_.claim(want, term, units);
  }
  /// See Claims.
  Claim claim_below(std::uint64_t limit, std::uint64_t want, std::uint64_t term) {
    return claims_.claim_below(limit, want, term);
  }
  bool is_over(std::uint64_t term) { return claims_.is_over(term); }
  /// The claims themselves, for the payload.
  Claims& claims() { return claims_; }
  const Claims& claims() const { return claims_; }

  /// Makes a claimed run, now written, visible to the consumer.
  void commit(std::uint64_t first, std::uint64_t count) {
    std::uint64_t slot = first % capacity_;
    std::uint32_t lap = lap_of(first);
    for (std::uint64_t i = 0; i < count; ++i) {
      // Release: pairs with the acquire in committed(); the slot's bytes come with it.
      laps_[slot].store(lap, std::memory_order_release);
      if (++slot == capacity_) {
        slot = 0;
        ++lap;
      }
    }
    // The consumer names the one slot that it misses, so that a segment of a thousand
    // records costs one wake-up. Relaxed: ordered by announce() and prepare().
    if (filled_.announce() && wanted_.load(std::memory_order_relaxed) - first < count)
      filled_.wake();
  }

  bool has_room(std::uint64_t units = 0) const { return claims_.has_room(units); }

  /// Waited on for room: prepare, claim again, wait.
  EventCount& room() { return claims_.room(); }

  /// True once since the last call if a claim found less room than it wanted.
  bool held_back() const { return claims_.held_back(); }
  void clear_held_back() { claims_.clear_held_back(); }

  // ---- the consumer, one at a time

  /// The end of the committed prefix.
  std::uint64_t committed() {
    std::uint64_t slot = committed_ % capacity_;
    std::uint32_t lap = lap_of(committed_);
    // Acquire: pairs with the release in commit().
    while (laps_[slot].load(std::memory_order_acquire) == lap) {
      ++committed_;
      if (++slot == capacity_) {
        slot = 0;
        ++lap;
      }
    }
    return committed_;
  }

  /// Gives back every slot below `position`.
  void release(std::uint64_t position) {
    if (!claims_.release(position)) return;
    if (slot_owner_) slot_owner_->return_slots(position);
    room().notify();
  }

  std::uint64_t released() const { return claims_.released(); }

  /// The consumer's term as far as it is known: complete up to `committed`, claimed up
  /// to `tail`, and no more to come if `closed`.
  struct Extent {
    std::uint64_t committed;
    std::uint64_t tail;
    bool closed;
  };
  Extent extent() {
    return extent([this] { return committed(); });
  }
  /// `complete`: says where the records that are there for the consumer end.
  template <class Complete>
  Extent extent(Complete&& complete) const {
    const Claims::End claimed = claims_.end();
    const std::uint64_t end = complete();
    // Last: a consumer that saw anything of a term opened ahead sees where it begins.
    const std::uint64_t border = border_.load(std::memory_order_acquire);
    if (border != kNoBorder) return {end < border ? end : border, border, true};
    return {end, claimed.position, claimed.closed};
  }

  /// The end of what was put in the consumer's term by now.
  std::uint64_t put_end() { return extent().committed; }

  /// Goes over to the term that was opened ahead.
  void cross_border() { border_.store(kNoBorder, std::memory_order_release); }

  /// Says which position is waited for; then prepare on filled(), look, wait.
  void want(std::uint64_t position) {
    wanted_.store(position, std::memory_order_relaxed);
  }
  EventCount& filled() { return filled_; }

  bool is_committed(std::uint64_t position) const {
    return laps_[position % capacity_].load(std::memory_order_acquire) ==
           lap_of(position);
  }

  /// Always false: committed records can be drawn at once, and released slots taken.
  /// cuda::StagedRing differs.
  static constexpr bool behind() { return false; }
  std::uint64_t staged_end() const { return tail(); }
  static constexpr bool clearing() { return false; }

  // ---- either side

  void close() {
    claims_.close();  // no claim can come after it
    wake_all();
  }
  void wake_all() {
    filled_.notify();
    room().notify();
  }
  bool closed() const { return claims_.end().closed; }

  /// Returns where the consumer's term ends, if that is known.
  std::optional<std::uint64_t> end() const {
    const Claims::End claimed = claims_.end();
    const std::uint64_t border = border_.load(std::memory_order_acquire);
    if (border != kNoBorder) return border;
    if (claimed.closed) return claimed.position;
    return std::nullopt;
  }

  /// The number of positions ever claimed.
  std::uint64_t tail() const { return claims_.position(); }

  /// Waits until what is claimed below `end` is committed; the consumer rests. That
  /// ends by itself: the producers that claimed are copying.
  void settle(std::uint64_t end) {
    while (committed() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  /// Passes over `count` positions, which hold nothing: of a closed ring that is
  /// settled, the consumer resting. Then settle again.
  void skip(std::uint64_t count) {
    const std::uint64_t first = tail();
    claims_.skip(count);
    commit(first, count);
  }

  /// Opens a closed ring again, for a new term.
  void reopen() { claims_.reopen(); }

  /// Opens a closed ring for the next term while the consumer is still in this one,
  /// which ends where the next begins.
  void reopen_ahead() {
    // Release, and before the word changes: see extent().
    border_.store(tail(), std::memory_order_release);
    reopen();
  }
  bool opened_ahead() const {
    return border_.load(std::memory_order_acquire) != kNoBorder;
  }

 private:
  static constexpr std::uint64_t kNoBorder = ~std::uint64_t{0};

  /// Returns the value of a slot once `position` is committed in it; 0 is a slot never
  /// written.
  std::uint32_t lap_of(std::uint64_t position) const {
    return static_cast<std::uint32_t>(position / capacity_) + 1;
  }

  const std::uint64_t capacity_;
  const std::shared_ptr<SlotOwner> slot_owner_;  // of the slots, if they are another's
  const std::unique_ptr<std::atomic<std::uint32_t>[]> laps_;

  Claims claims_;
  alignas(kNoSharing) EventCount filled_;
  std::atomic<std::uint64_t> wanted_{0};
  std::atomic<std::uint64_t> border_{kNoBorder};  // of a term opened ahead
  alignas(kNoSharing) std::uint64_t committed_;
};

}  // namespace echobuf
