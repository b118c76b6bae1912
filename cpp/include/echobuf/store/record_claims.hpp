// Which positions of a ring may be written: claims by any number of producers, of
// records of one size.
#pragma once

#include <atomic>
#include <cstdint>

#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Two lines: adjacent-line prefetchers move pairs.
inline constexpr std::size_t kNoSharing = 128;

class RecordClaims {
 public:
  struct Claim {
    std::uint64_t first;
    std::uint64_t count;  // 0: full or closed
    bool closed;
  };

  /// Begins at position `first`; `room` positions from `released` on may be claimed.
  RecordClaims(std::uint64_t room, std::uint64_t first, std::uint64_t released)
      : room_size_(room), tail_(first), limit_(released + room) {}

  // ---- producers, any number

  std::uint64_t term() const { return tail_.load(std::memory_order_acquire) & kTerm; }

  Claim claim(std::uint64_t want, std::uint64_t term) {
    // Acquire: pairs with the release below. The producer that moved the tail here had
    // read a limit at least as far; we must not read an older one, or `room` wraps
    // around.
    std::uint64_t tail = tail_.load(std::memory_order_acquire);
    for (;;) {
      if ((tail & (kClosed | kTerm)) != term) return {0, 0, true};
      // Acquire: pairs with release(); the consumer's reads of these slots are done.
      const std::uint64_t room =
          limit_.load(std::memory_order_acquire) - (tail & kPosition);
      const std::uint64_t count = want < room ? want : room;
      if (count < want) held_back_.store(true, std::memory_order_relaxed);
      if (count == 0) return {0, 0, false};
      // Release: see above. The records are published by commit().
      if (tail_.compare_exchange_weak(tail, tail + count, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return {tail & kPosition, count, false};
    }
  }

  bool has_room() const { return position() < limit_.load(std::memory_order_acquire); }

  EventCount& room() { return room_; }

  bool held_back() const { return held_back_.load(std::memory_order_relaxed); }
  void clear_held_back() { held_back_.store(false, std::memory_order_relaxed); }

  // ---- the consumer, one at a time

  /// Positions below `position` are free again. False if they were before.
  bool release(std::uint64_t position) {
    if (position + room_size_ == limit_.load(std::memory_order_relaxed)) return false;
    // Release: pairs with the acquire in claim(); our reads happen before their writes.
    limit_.store(position + room_size_, std::memory_order_release);
    return true;
  }

  std::uint64_t released() const {
    return limit_.load(std::memory_order_relaxed) - room_size_;
  }

  // ---- either side

  /// The number of positions ever claimed.
  std::uint64_t position() const {
    return tail_.load(std::memory_order_acquire) & kPosition;
  }

  /// Where claims have come to, and whether more can come: of one moment.
  struct End {
    std::uint64_t position;
    bool closed;
  };
  End end() const {
    const std::uint64_t word = tail_.load(std::memory_order_acquire);
    return {word & kPosition, (word & kClosed) != 0};
  }

  void close() {
    // Acquire-release, as one change of the word that claims go through: no claim can
    // come after it.
    tail_.fetch_or(kClosed, std::memory_order_acq_rel);
  }

  /// Claims `count` positions of a closed ring, the consumer resting.
  void skip(std::uint64_t count) { tail_.fetch_add(count, std::memory_order_acq_rel); }

  /// Opens what is closed again, for a new term. Only this and another close() change a
  /// closed ring's word, which the exchange acquires: what came before that is seen
  /// after this.
  void reopen() {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    tail_.exchange((tail & kPosition) | ((tail + kTermStep) & kTerm),
                   std::memory_order_acq_rel);
  }

 private:
  // The word that claims go through: closed, term, position. 2^48 positions last
  // three days at a record a nanosecond, years at any real rate.
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kTermStep = std::uint64_t{1} << 48;
  static constexpr std::uint64_t kPosition = kTermStep - 1;
  static constexpr std::uint64_t kTerm = ~(kClosed | kPosition);

  const std::uint64_t room_size_;
  alignas(kNoSharing) std::atomic<std::uint64_t> tail_;
  alignas(kNoSharing) std::atomic<std::uint64_t> limit_;
  std::atomic<bool> held_back_{false};
  EventCount room_;
};

}  // namespace echobuf
