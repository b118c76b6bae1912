// Which positions of a ring may be written, and which part of its payload: claims by
// any number of producers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/staging_limits.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Two lines: adjacent-line prefetchers move pairs.
inline constexpr std::size_t kNoSharing = 128;

/// The measures of a ring, and where it begins.
struct RingShape {
  std::uint64_t capacity;   // slots
  std::uint64_t units = 0;  // of the payload; 0: records have no rows, or another ring
                            // has these
  std::uint64_t wrap_from = ~std::uint64_t{0};      // units: see Claims
  std::uint64_t first = 0;                          // position that is claimed first
  std::uint64_t place = 0;                          // of the payload, where that begins
  std::uint64_t room = capacity;                    // slots that are claimed at a time
  std::uint64_t released = first;                   // positions from here on are in use
  std::uint64_t released_place = place;             // of the payload, where these begin
  const StagingLimits* staging = nullptr;           // of who brings records to the ring
  std::shared_ptr<SlotOwner> slot_owner = nullptr;  // if the slots are another's

  /// Over slots that are borrowed, at most `room` of them claimed at a time. If records
  /// have rows, their owner's ring has the payload.
  static RingShape over(const BorrowedSlots& borrowed, std::uint64_t room) {
    return {.capacity = borrowed.slots,
            .first = borrowed.first,
            .room = room,
            .slot_owner = borrowed.slot_owner};
  }
};

/// Positions count records for ever. Where records have rows, the payload is a ring of
/// units of some bytes. A record takes a run of them that does not wrap around: one
/// that would begins at the ring's start, and what it leaves is free again with it. So
/// a record of up to half of the ring has room once all is free, and a larger one
/// perhaps not. Places count units for ever.
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
/// Position and place move in one word, so that records lie in the payload in the order
/// of their positions: closed, term, position and place, each modulo a power of two. A
/// producer knows the rest of their digits from the limits, which are at most one ring
/// away. Without a payload the word has 48 digits of the position: a position a
/// nanosecond lasts for three days, and any real rate for years.
///
/// A word of a payload comes again where others, between a producer's load and its
/// exchange, have claimed a multiple of 2^24 records, of a multiple of 2^30 units or of
/// none, in this term or 512 terms on. The exchange would then have to meet that one
/// word of millions after a thread has rested for a second or longer.
class Claims {
 public:
  static constexpr std::uint64_t kMostRecords = (std::uint64_t{1} << 24) - 1;
  static constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 29;

  struct Claim {
    std::uint64_t first;
    std::uint64_t count;  // 0: full or closed
    bool closed;
    std::uint64_t place = 0;  // where the payload had come to: see take()
  };

  /// A place, and the unit of the ring that it is.
  struct Cursor {
    std::uint64_t place;
    std::uint64_t unit;
  };

  /// With a payload at most kMostRecords, and kMostUnits. `wrap_from`: at least 1.
  explicit Claims(const RingShape& shape)
      : staging_(shape.staging),
        records_(shape.room),
        units_(shape.units),
        wrap_from_(shape.wrap_from),
        digits_(shape.units > 0 ? kWithPlace : kPositionAlone),
        ends_(shape.units > 0 ? std::make_unique<std::uint64_t[]>(records_) : nullptr),
        word_(moved(0, shape.first, shape.place)),
        limit_(shape.released + records_),
        place_limit_(shape.released_place + units_) {}

  std::uint64_t units() const { return units_; }
  /// Of a record of a payload.
  static constexpr std::size_t kBytes = sizeof(std::uint64_t);

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

  std::uint64_t term() const {
    if (units_ > 0) return term_.load(std::memory_order_acquire);
    // Of the word, so that who sees another term sees it open.
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return (word & kPositionAlone.term()) / kPositionAlone.term_step;
  }

  /// Takes up to `want` positions; fewer when there is no room. `units`: of the rows of
  /// each record; null: they have none. The payload of each is where take() has it,
  /// from the claim's `place` on; the producer notes where it ends, with end_at().
  Claim claim(std::uint64_t want, std::uint64_t term,
              const std::uint64_t* units = nullptr) {
    // Two loops: records without rows are small, and a claim is a part of their put.
    if (units_ > 0) return claim_rows(want, term, units);
    return claim_slots(want, term, [this] { return limit(); });
  }
  /// The same of records without rows, below another limit.
  Claim claim_below(std::uint64_t limit, std::uint64_t want, std::uint64_t term) {
    return claim_slots(want, term, [&] { return limit; });
  }

  /// Returns whether `term` is over.
  bool is_over(std::uint64_t term) { return claim(0, term).closed; }

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
  bool has_room(std::uint64_t size = 0) const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t limit = limit_.load(std::memory_order_acquire);
    const std::uint64_t position = position_of(word, limit);
    if (units_ == 0) return position < limit;
    const std::uint64_t place_limit = place_limit_.load(std::memory_order_acquire);
    std::uint64_t place = place_of(word, place_limit);
    take(place, size);
    return position < limit && place <= place_limit && is_staged(position, place);
  }

  EventCount& room() { return room_; }
  /// The position below which records without rows have room. Acquire: pairs with
  /// release(); the consumer's reads of these slots are done.
  std::uint64_t limit() const { return limit_.load(std::memory_order_acquire); }

  bool held_back() const { return held_back_.load(std::memory_order_relaxed); }
  void clear_held_back() { held_back_.store(false, std::memory_order_relaxed); }

  // ---- the consumer, one at a time

  /// The records below `position`, all committed, are free again, and their payload.
  /// False if they were before.
  bool release(std::uint64_t position) {
    if (position + records_ == limit_.load(std::memory_order_relaxed)) return false;
    // Release: pairs with the acquire in claim(); our reads happen before their writes.
    if (units_ > 0)
      place_limit_.store(ends_[(position - 1) % records_] + units_,
                         std::memory_order_release);
    limit_.store(position + records_, std::memory_order_release);
    return true;
  }

  std::uint64_t released() const {
    return limit_.load(std::memory_order_relaxed) - records_;
  }

  // ---- either side

  /// The units that are taken; 0 without a payload, or where it is another process's.
  /// Of a moment that is over while producers or the consumer go on.
  std::uint64_t used() const {
    if (units_ == 0) return 0;
    const std::uint64_t limit = place_limit_.load(std::memory_order_acquire);
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t place =
        place_of(word, place_limit_.load(std::memory_order_acquire));
    const std::uint64_t freed = std::min(place, limit - units_);
    const std::uint64_t skipped =
        place / units_ == freed / units_ ? 0 : skipped_.load(std::memory_order_relaxed);
    return std::min(units_, place - freed - std::min(skipped, place - freed));
  }

  /// The number of positions ever claimed.
  std::uint64_t position() const { return end().position; }

  /// Where claims have come to, and whether more can come: of one moment.
  struct End {
    std::uint64_t position;
    bool closed;
  };
  End end() const {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    while (units_ > 0) {
      const std::uint64_t limit = limit_.load(std::memory_order_acquire);
      // A limit that is much newer than the word says nothing about it.
      const std::uint64_t again = word_.load(std::memory_order_acquire);
      if (again == word) return {position_of(word, limit), (word & kClosed) != 0};
      word = again;
    }
    return {position_of(word, 0), (word & kClosed) != 0};
  }

  void close() {
    // Acquire-release, as one change of the word that claims go through: no claim can
    // come after it.
    word_.fetch_or(kClosed, std::memory_order_acq_rel);
  }

  /// Claims `count` positions of records without rows: of a closed ring that is
  /// settled, the consumer resting. All before them are free then, and of those that
  /// are skipped as many as there are no slots for.
  void skip(std::uint64_t count) {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    const std::uint64_t first =
        position_of(word, limit_.load(std::memory_order_relaxed));
    std::uint64_t place = 0;
    if (units_ > 0) {
      release(first);  // what a word says is at most a ring away from the limits
      place = place_of(word, place_limit_.load(std::memory_order_relaxed));
      for (std::uint64_t i = 0; i < count; ++i) end_at(first + i, place);
      if (count > records_) release(first + count - records_);
    }
    word_.exchange(moved(word, first + count, place), std::memory_order_acq_rel);
  }

  /// Opens what is closed again, for a new term. Only this and another close() change a
  /// closed ring's word, which the exchange acquires: what came before that is seen
  /// after this.
  void reopen() {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    // Release, and before the word is open: see claim_rows().
    if (units_ > 0) term_.fetch_add(1, std::memory_order_acq_rel);
    word_.exchange((word & ~kClosed & ~digits_.term()) |
                       ((word + digits_.term_step) & digits_.term()),
                   std::memory_order_acq_rel);
  }

 private:
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;

  /// How the word is divided: closed, term, position, place.
  struct Digits {
    int position_shift;
    std::uint64_t position;   // of the position, before it is shifted
    std::uint64_t term_step;  // 1 of the term

    constexpr std::uint64_t term() const { return kClosed - term_step; }
    std::uint64_t place() const { return (std::uint64_t{1} << position_shift) - 1; }
  };
  static constexpr Digits kPositionAlone{0, (std::uint64_t{1} << 48) - 1,
                                         std::uint64_t{1} << 48};
  static constexpr Digits kWithPlace{30, kMostRecords, std::uint64_t{1} << 54};
  static_assert(2 * kMostUnits == std::uint64_t{1} << kWithPlace.position_shift);

  template <class Limit>
  Claim claim_slots(std::uint64_t want, std::uint64_t term, const Limit& limit_now) {
    // Acquire: pairs with the release below.
    std::uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      // The word has digits of the term: no put lasts for all that they count.
      if ((word & kClosed) ||
          ((word ^ term * kPositionAlone.term_step) & kPositionAlone.term()))
        return {0, 0, true};
      const std::uint64_t limit = limit_now();
      const std::uint64_t first = word & kPositionAlone.position;
      // Others may have claimed beyond it, by another limit or a later one.
      const std::uint64_t room = limit > first ? limit - first : 0;
      const std::uint64_t count = want < room ? want : room;
      if (count < want) held_back_.store(true, std::memory_order_relaxed);
      if (count == 0) return {0, 0, false};
      // Release: see above. The records are published by commit().
      if (word_.compare_exchange_weak(word, word + count, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return {first, count, false};
    }
  }

  /// The same where records have rows.
  Claim claim_rows(std::uint64_t want, std::uint64_t term, const std::uint64_t* units) {
    std::uint64_t word = word_.load(std::memory_order_acquire);  // as above
    for (;;) {
      // The term is looked at after the word: an exchange that succeeds saw no other.
      if ((word & kClosed) || term_.load(std::memory_order_acquire) != term)
        return {0, 0, true};
      const Fit fit = fit_rows(word, want, units);
      if (fit.is_full) held_back_.store(true, std::memory_order_relaxed);
      if (fit.count == 0) return {0, 0, false};
      if (!word_.compare_exchange_weak(
              word, moved(word, fit.first + fit.count, fit.end),
              std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      if (fit.skipped > 0) skipped_.store(fit.skipped, std::memory_order_relaxed);
      return {fit.first, fit.count, false, fit.place};
    }
  }

  /// The records of a claim that have room.
  struct Fit {
    std::uint64_t first;
    std::uint64_t count;
    bool is_full;           // there is no room for one more
    std::uint64_t place;    // where the payload had come to
    std::uint64_t end;      // and where it then comes to
    std::uint64_t skipped;  // units that a wrap leaves
  };

  Fit fit_rows(std::uint64_t word, std::uint64_t want,
               const std::uint64_t* units) const {
    // Acquire, both: as above.
    const std::uint64_t limit = limit_.load(std::memory_order_acquire);
    const std::uint64_t place_limit = place_limit_.load(std::memory_order_acquire);
    Fit fit{position_of(word, limit), 0, false, place_of(word, place_limit), 0, 0};
    Cursor at = cursor(fit.place);
    while (fit.count < want) {
      Cursor next = at;
      const Cursor record = take(next, units ? units[fit.count] : 0);
      fit.is_full = fit.first + fit.count >= limit || next.place > place_limit;
      if (fit.is_full || !is_staged(fit.first + fit.count, next.place)) break;
      if (record.place != at.place) fit.skipped = record.place - at.place;
      at = next;
      ++fit.count;
    }
    fit.end = at.place;
    return fit;
  }

  /// The position of a word, given a limit: it is no further behind than the ring is
  /// long, and not beyond. Without a payload the word has all of its digits.
  std::uint64_t position_of(std::uint64_t word, std::uint64_t limit) const {
    if (units_ == 0) return word & digits_.position;
    return limit - ((limit - (word >> digits_.position_shift)) & digits_.position);
  }
  std::uint64_t place_of(std::uint64_t word, std::uint64_t limit) const {
    return limit - ((limit - word) & digits_.place());
  }
  std::uint64_t moved(std::uint64_t word, std::uint64_t position,
                      std::uint64_t place) const {
    return (word & (kClosed | digits_.term())) |
           (position & digits_.position) << digits_.position_shift |
           (place & digits_.place());
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
  const Digits digits_;
  const std::unique_ptr<std::uint64_t[]> ends_;  // of the payload of each slot's record
  alignas(kNoSharing) std::atomic<std::uint64_t> word_;
  std::atomic<std::uint64_t> term_{
      0};  // of records with rows, whose word has few digits
  alignas(kNoSharing) std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> place_limit_;
  std::atomic<bool> held_back_{false};
  std::atomic<std::uint64_t> skipped_{0};  // units, by the last wrap: a statistic
  EventCount room_;
};

}  // namespace echobuf
