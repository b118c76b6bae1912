// Which positions of a ring may be written, and which part of its payload: claims by
// any number of producers, of records that differ in size.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "echobuf/store/record_claims.hpp"
#include "echobuf/store/staging_limits.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// The payload is a ring of units of some bytes. A record takes a run of them that does
/// not wrap around: one that would begins at the ring's start, and what it leaves is
/// free again with it. So a record of up to half of the ring has room once all is free,
/// and a larger one perhaps not. Places count units for ever, as positions count
/// records.
///
/// A record that would begin at unit `wrap_from` or behind it begins at the start, too.
/// So of the memory behind `wrap_from` only as much is written as the largest record
/// is long, and untouched pages take no memory. Where records have at most `m` units,
/// and units = wrap_from + m, a record always has room beside others of at most
/// wrap_from - m units in all:
/// - Without a wrap among these they lie in [t, h). If h < wrap_from, the record fits
///   from h on. Else it begins at the start, and t = h - (h - t) >= m.
/// - With one they lie in [t, e) and [0, h). The record before the wrap ended at
///   e >= wrap_from, since the next one wrapped. So t - h = e - (e - t + h) >= m.
///
/// Both move in one word, so that records lie in the payload in the order of their
/// positions: closed, term, position and place, each modulo a power of two. A producer
/// knows the rest of their digits from the limits, which are at most one ring away.
///
/// A word comes again where others, between a producer's load and its exchange, have
/// claimed a multiple of 2^24 records, of a multiple of 2^30 units or of none, in this
/// term or 512 terms on. The exchange would then have to meet that one word of millions
/// after a thread has rested for a second or longer.
class PayloadClaims {
 public:
  static constexpr std::uint64_t kMostRecords = (std::uint64_t{1} << 24) - 1;
  static constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 29;

  struct Claim {
    std::uint64_t first;
    std::uint64_t count;  // 0: full or closed
    bool closed;
    std::uint64_t place;  // where the payload had come to: see take()
  };

  /// A place, and the unit of the ring that it is.
  struct Cursor {
    std::uint64_t place;
    std::uint64_t unit;
  };

  /// A ring of `records`, at most kMostRecords, and of `units`, at most kMostUnits.
  /// Begins at position `first`, and at `place` of the payload. `staging`: a bound
  /// besides, of who brings records to the ring; or null. `wrap_from`: at least 1.
  PayloadClaims(std::uint64_t records, std::uint64_t units, std::uint64_t first = 0,
                std::uint64_t place = 0, const StagingLimits* staging = nullptr,
                std::uint64_t wrap_from = ~std::uint64_t{0})
      : staging_(staging),
        records_(records),
        units_(units),
        wrap_from_(wrap_from),
        ends_(std::make_unique<std::uint64_t[]>(records)),
        word_(moved(0, first, place)),
        limit_(first + records),
        place_limit_(place + units) {}

  /// The same where positions from `released` on are in use: the payload of that record
  /// begins at `released_place`, and those below `first` end where `end_of` says.
  template <class EndOf>
  PayloadClaims(std::uint64_t records, std::uint64_t units, std::uint64_t first,
                std::uint64_t place, std::uint64_t released,
                std::uint64_t released_place, const EndOf& end_of)
      : PayloadClaims(records, units, first, place) {
    limit_.store(released + records, std::memory_order_relaxed);
    place_limit_.store(released_place + units, std::memory_order_relaxed);
    for (std::uint64_t i = released; i < first; ++i) end_at(i, end_of(i));
  }

  std::uint64_t units() const { return units_; }
  static std::size_t bytes(std::uint64_t records) {
    return records * sizeof(std::uint64_t);
  }

  Cursor cursor(std::uint64_t place) const { return {place, place % units_}; }

  /// Returns where a record of `size` units lies, at most those of the ring, and moves
  /// `cursor`, where the payload has come to, behind it.
  Cursor take(Cursor& cursor, std::uint64_t size) const {
    const std::uint64_t left = units_ - cursor.unit;
    const Cursor start = size <= left && cursor.unit < wrap_from_
                             ? cursor
                             : Cursor{cursor.place + left, 0};
    const std::uint64_t end = start.unit + size;
    cursor = {start.place + size, end < units_ ? end : 0};
    return start;
  }
  /// The same of `place`, where the payload has come to.
  std::uint64_t take(std::uint64_t& place, std::uint64_t size) const {
    Cursor at = cursor(place);
    const Cursor start = take(at, size);
    place = at.place;
    return start.place;
  }

  // ---- producers, any number

  std::uint64_t term() const { return term_.load(std::memory_order_acquire); }

  /// Takes up to `want` positions, the i-th of a record of `size_of(i)` units; fewer
  /// when there is no room. The payload of each is where take() has it, from the
  /// claim's `place` on; the producer notes where it ends, with end_at().
  template <class SizeOf>
  Claim claim(std::uint64_t want, const SizeOf& size_of, std::uint64_t term) {
    // Acquire: as in RecordClaims::claim(), for both limits.
    std::uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      // The term is looked at after the word: an exchange that succeeds saw no other.
      if ((word & kClosed) || term_.load(std::memory_order_acquire) != term)
        return {0, 0, true, 0};
      // Acquire: pairs with release(); the consumer's reads are done.
      const std::uint64_t limit = limit_.load(std::memory_order_acquire);
      const std::uint64_t place_limit = place_limit_.load(std::memory_order_acquire);
      const std::uint64_t first = position_of(word, limit);
      const std::uint64_t start = place_of(word, place_limit);
      std::uint64_t count = 0;
      std::uint64_t skipped = 0;
      Cursor at = cursor(start);
      bool fits = true;
      while (count < want) {
        Cursor next = at;
        const Cursor record = take(next, size_of(count));
        fits = first + count < limit && next.place <= place_limit;
        if (!fits || !is_staged(first + count, next.place)) break;
        if (record.place != at.place) skipped = record.place - at.place;
        at = next;
        ++count;
      }
      if (!fits) held_back_.store(true, std::memory_order_relaxed);
      if (count == 0) return {0, 0, false, 0};
      // Release: as in RecordClaims::claim().
      if (!word_.compare_exchange_weak(word, moved(word, first + count, at.place),
                                       std::memory_order_acq_rel,
                                       std::memory_order_acquire))
        continue;
      if (skipped > 0) skipped_.store(skipped, std::memory_order_relaxed);
      return {first, count, false, start};
    }
  }

  /// The payload of the record at `position`, which is claimed and not committed, ends
  /// at `place`.
  void end_at(std::uint64_t position, std::uint64_t place) {
    end_in(position % records_, place);
  }
  /// The same of the record in `slot`.
  void end_in(std::uint64_t slot, std::uint64_t place) { ends_[slot] = place; }
  /// Where that of a committed record ends.
  std::uint64_t end_of(std::uint64_t position) const {
    return ends_[position % records_];
  }

  /// Returns whether a record of `size` units has room.
  bool has_room(std::uint64_t size) const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t limit = limit_.load(std::memory_order_acquire);
    const std::uint64_t place_limit = place_limit_.load(std::memory_order_acquire);
    std::uint64_t place = place_of(word, place_limit);
    take(place, size);
    const std::uint64_t position = position_of(word, limit);
    return position < limit && place <= place_limit && is_staged(position, place);
  }

  EventCount& room() { return room_; }

  bool held_back() const { return held_back_.load(std::memory_order_relaxed); }
  void clear_held_back() { held_back_.store(false, std::memory_order_relaxed); }

  // ---- the consumer, one at a time

  /// The records below `position`, all committed, are free again, and their payload.
  /// False if they were before.
  bool release(std::uint64_t position) {
    if (position + records_ == limit_.load(std::memory_order_relaxed)) return false;
    // Release: as in RecordClaims::release().
    place_limit_.store(ends_[(position - 1) % records_] + units_,
                       std::memory_order_release);
    limit_.store(position + records_, std::memory_order_release);
    return true;
  }

  std::uint64_t released() const {
    return limit_.load(std::memory_order_relaxed) - records_;
  }

  // ---- either side

  /// The units that are taken. Of a moment that is over while producers or the consumer
  /// go on.
  std::uint64_t used() const {
    const std::uint64_t limit = place_limit_.load(std::memory_order_acquire);
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t place =
        place_of(word, place_limit_.load(std::memory_order_acquire));
    const std::uint64_t freed = std::min(place, limit - units_);
    const std::uint64_t skipped =
        place / units_ == freed / units_ ? 0 : skipped_.load(std::memory_order_relaxed);
    return std::min(units_, place - freed - std::min(skipped, place - freed));
  }

  std::uint64_t position() const { return end().position; }

  using End = RecordClaims::End;
  End end() const {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t limit = limit_.load(std::memory_order_acquire);
      // A limit that is much newer than the word says nothing about it.
      const std::uint64_t again = word_.load(std::memory_order_acquire);
      if (again == word) return {position_of(word, limit), (word & kClosed) != 0};
      word = again;
    }
  }

  void close() { word_.fetch_or(kClosed, std::memory_order_acq_rel); }

  /// Claims `count` positions of records of no payload: of a closed ring that is
  /// settled, the consumer resting. All before them are free then, and of those that
  /// are skipped as many as there are no slots for.
  void skip(std::uint64_t count) {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t first =
        position_of(word, limit_.load(std::memory_order_relaxed));
    release(first);  // what a word says is at most a ring away from the limits
    const std::uint64_t place =
        place_of(word, place_limit_.load(std::memory_order_relaxed));
    for (std::uint64_t i = 0; i < count; ++i) end_at(first + i, place);
    if (count > records_) release(first + count - records_);
    word_.store(moved(word, first + count, place), std::memory_order_release);
  }

  void reopen() {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    // Release, and before the word is open: see claim().
    term_.fetch_add(1, std::memory_order_acq_rel);
    word_.exchange(((word & ~kClosed) & ~kTerm) | ((word + kTermStep) & kTerm),
                   std::memory_order_acq_rel);
  }

 private:
  static constexpr std::uint64_t kPlace = 2 * kMostUnits - 1;
  static constexpr int kPositionShift = 30;
  static constexpr std::uint64_t kPosition = kMostRecords;
  static constexpr std::uint64_t kTermStep = std::uint64_t{1} << 54;
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kTerm = kClosed - kTermStep;
  static_assert(kPlace + 1 == std::uint64_t{1} << kPositionShift);
  static_assert((kPosition + 1) << kPositionShift == kTermStep);

  /// The position of a word, given a limit: it is no further behind than the ring is
  /// long, and not beyond.
  static std::uint64_t position_of(std::uint64_t word, std::uint64_t limit) {
    return limit - ((limit - (word >> kPositionShift)) & kPosition);
  }
  static std::uint64_t place_of(std::uint64_t word, std::uint64_t limit) {
    return limit - ((limit - word) & kPlace);
  }
  static std::uint64_t moved(std::uint64_t word, std::uint64_t position,
                             std::uint64_t place) {
    return (word & (kClosed | kTerm)) | (position & kPosition) << kPositionShift |
           (place & kPlace);
  }

  /// Returns whether staging has room for the record at `position`, up to `end` of the
  /// payload. Acquire: pairs with StagingLimits::release().
  bool is_staged(std::uint64_t position, std::uint64_t end) const {
    return !staging_ ||
           (position < staging_->position.load(std::memory_order_acquire) &&
            end <= staging_->place.load(std::memory_order_acquire));
  }

  const StagingLimits* const staging_;
  const std::uint64_t records_;
  const std::uint64_t units_;
  const std::uint64_t wrap_from_;
  const std::unique_ptr<std::uint64_t[]> ends_;  // of the record in each slot
  alignas(kNoSharing) std::atomic<std::uint64_t> word_;
  std::atomic<std::uint64_t> term_{0};
  alignas(kNoSharing) std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> place_limit_;
  std::atomic<bool> held_back_{false};
  std::atomic<std::uint64_t> skipped_{0};  // units, by the last wrap: a statistic
  EventCount room_;
};

}  // namespace echobuf
