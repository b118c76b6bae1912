// Runs in the trainer: takes in what workers have done, and lets it enter the ring, in
// the order of submission or in the order of arrival.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/options.hpp"
#include "echobuf/shared/arrival_journal.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/record_sink.hpp"
#include "echobuf/shared/rows_area.hpp"

namespace echobuf::workers {

/// The items on the board, from the time when they are offered until they have entered
/// the ring. One thread at a time begins terms and offers items.
class Collector {
 public:
  /// `areas`: in which workers leave examples; null for examples of one size, which
  /// they write into slots. `keep`: entries of a term that entered() knows.
  Collector(RecordSink& sink, const ControlBlock& block, const RowsAreas* areas,
            std::uint64_t keep)
      : sink_(sink),
        block_(block),
        areas_(areas),
        keep_(keep),
        entries_(ItemBoard::kItems),
        read_(block.workers()),
        made_(block.workers()) {}
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // ---- the thread that offers items

  /// Begins a term, of which the first `ordered` items enter in the order in which they
  /// are offered; without a number all do. Workers make those in turn, so that what a
  /// worker makes does not depend on time. All items of the last term have entered, or
  /// were given up.
  void begin(std::uint64_t term, std::optional<std::uint64_t> ordered) {
    const std::lock_guard collecting(collecting_);
    term_ = {term, ordered.value_or(ItemBoard::kNone), submitted()};
    if (!ordered) return;
    const std::lock_guard lock(mutex_);
    journals_.emplace_back(term, *ordered, keep_);
    if (journals_.size() > 2) journals_.pop_front();  // the last may be served out yet
  }

  /// Returns how many items there is room for, if `most` may be outstanding.
  std::uint64_t room(std::uint64_t most) const {
    const std::uint64_t outstanding = outstanding_.load(std::memory_order_relaxed);
    return outstanding < most ? std::min(most - outstanding,
                                         oldest() + ItemBoard::kItems - submitted())
                              : 0;
  }

  /// Offers items. `position`: in the ring, of the place of the first one; for examples
  /// of one size.
  void offer(const std::int64_t* indices, std::uint64_t count, std::uint64_t position) {
    outstanding_.fetch_add(count, std::memory_order_relaxed);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t number = submitted();
      const bool ordered = number - term_.first < term_.ordered;
      entry(number) = {position + i, ordered, false, areas_ != nullptr};
      ItemBoard::Item& item = board().at(number);
      item.index = indices[i];
      item.position = position + i;
      item.ordered = ordered;
      item.turn.store(
          ordered ? (number - term_.first) % block_.workers() : ItemBoard::kNone,
          std::memory_order_relaxed);
      if (!areas_ && !ordered) item.place.offer(number);
      item.item.offer(number);
      // Release: the item comes with it. First here: a worker is not to be done with
      // what the collector does not know of.
      submitted_.store(number + 1, std::memory_order_release);
      board().submitted.store(number + 1, std::memory_order_release);
    }
  }

  // ---- any thread

  /// The number of items offered so far.
  std::uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  /// Items below have entered, or were given up. Acquire: their entries are free.
  std::uint64_t oldest() const { return oldest_.load(std::memory_order_acquire); }

  /// Takes in what workers have done. Returns false if there is nothing for now.
  bool collect() {
    const std::lock_guard collecting(collecting_);
    bool any = false;
    for (std::uint64_t i = 0; i < read_.size(); ++i) any |= collect(i);
    return any;
  }

  /// Revokes the items below `count`; those that nobody makes are given up at once.
  /// Their term has ended: what was not written must find a ring that serves nothing.
  void revoke(std::uint64_t count) {
    const std::lock_guard collecting(collecting_);
    if (count > board().revoked.load(std::memory_order_relaxed))
      // Release: pairs with WorkerHold::is_revoked(); a thread that sees the commit
      // that follows sees that the term has ended, too.
      board().revoked.store(count, std::memory_order_release);
    for (auto n = oldest(); n < count; ++n)
      if (board().at(n).item.take(n, Taken::kTrainer) || broken_) give_up(n, {});
  }

  /// Gives up the revoked items that a worker has taken whose process has ended.
  void reap(std::uint64_t worker) {
    const std::lock_guard collecting(collecting_);
    collect(worker);
    const std::uint64_t end = board().revoked.load(std::memory_order_relaxed);
    for (auto n = oldest(); n < end; ++n)
      if (board().at(n).item.is_by(n, worker))
        give_up(n, board().held(&ItemBoard::Item::place, worker));
  }

  /// Returns what has entered in a term that is not in order, from an entry on, and the
  /// first item behind all that has; none of a term that is not known. Throws
  /// std::out_of_range.
  std::optional<std::pair<ArrivalJournal::Entered, std::uint64_t>> entered(
      std::uint64_t term, std::uint64_t from) const {
    const std::lock_guard lock(mutex_);
    for (const ArrivalJournal& journal : journals_)
      if (journal.term() == term) return {{journal.entered(from), journal.limit()}};
    return std::nullopt;
  }

 private:
  /// The trainer's own record of an item and of the place of that number, as no worker
  /// can change it.
  struct Entry {
    std::uint64_t position = 0;
    bool ordered = false;
    bool item_done = false;
    bool place_done = false;
  };
  struct Term {
    std::uint64_t number = 0;
    std::uint64_t ordered = ItemBoard::kNone;  // of its items
    std::uint64_t first = 0;                   // of its items
    std::uint64_t entered = 0;                 // of its items, where they have rows
  };
  enum class Outcome { kDone, kNotYet, kNoRoom };

  /// The buffer counts a wait for room as one of upstream's only while nothing is being
  /// made, so it is to be told soon; and it wakes this thread as soon as there is room.
  static constexpr auto kMoment = std::chrono::milliseconds(1);
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  ItemBoard& board() const { return block_.board(); }
  Entry& entry(std::uint64_t number) { return entries_[number % ItemBoard::kItems]; }

  // ---- with the lock

  bool collect(std::uint64_t worker) {
    DoneQueue& queue = block_.queue(worker);
    // Acquire: pairs with WorkerHold::finish(). A worker with corrupted memory may say
    // anything.
    const std::uint64_t done = std::min(queue.done.load(std::memory_order_acquire),
                                        read_[worker] + DoneQueue::kDepth);
    if (areas_) note_made(worker, done);
    bool any = false;
    for (std::uint64_t& read = read_[worker]; read < done; any = true) {
      const Outcome outcome =
          take_in(worker, queue.entries[read % DoneQueue::kDepth], read);
      if (outcome == Outcome::kNoRoom) return true;
      if (outcome == Outcome::kNotYet) break;
      ++read;
      // Release: the trainer has read the entry, and its example.
      queue.read.store(read, std::memory_order_release);
    }
    if (any) queue.room.notify();
    return any;
  }

  void note_made(std::uint64_t worker, std::uint64_t done) {
    if (done <= made_[worker]) return;
    sink_.end_making(done - made_[worker]);
    all_made_ += done - made_[worker];
    made_[worker] = done;
  }

  Outcome take_in(std::uint64_t worker, const DoneItem& done, std::uint64_t read) {
    const auto [item, place] = done;
    const bool has_place = !areas_ && place != ItemBoard::kNone;
    if (!is_open(item, &Entry::item_done) ||
        (has_place && !is_open(place, &Entry::place_done))) {
      break_off();
      return Outcome::kDone;
    }
    if (areas_) return put(worker, item, read);
    finish(item, has_place ? std::optional(place) : std::nullopt);
    return Outcome::kDone;
  }

  bool is_open(std::uint64_t number, bool Entry::*done) {
    return number >= oldest() && number < submitted() && !(entry(number).*done);
  }

  /// A worker has written nonsense: nothing of this term can be relied on.
  void break_off() {
    broken_ = true;
    sink_.fail(term_.number);
  }

  /// Puts an example that has rows, unless it is not the next one.
  Outcome put(std::uint64_t worker, std::uint64_t number, std::uint64_t read) {
    // Acquire: a revoked item may be done unwritten.
    const bool revoked = number < board().revoked.load(std::memory_order_acquire);
    if (!revoked) {
      if (entering_ != number) {
        if (entering_ || !is_due(number)) return Outcome::kNotYet;
        note(term_.entered++, number);
        entering_ = number;  // whatever is there is next, though there is no room yet
      }
      if (put_made(worker, read) == Status::kTimeout) return Outcome::kNoRoom;
    }
    entering_.reset();
    finish(number, std::nullopt);
    return Outcome::kDone;
  }

  /// Items whose order is fixed enter first.
  bool is_due(std::uint64_t number) const {
    return term_.entered >= term_.ordered || term_.entered == number - term_.first;
  }

  Status put_made(std::uint64_t worker, std::uint64_t read) {
    const auto leaves = areas_->read(worker, read);
    const bool making = all_made_ < submitted();
    const auto wait = making ? Clock::duration(kMoment) : Clock::duration(kSlice);
    try {
      if (!leaves) throw std::invalid_argument("a worker has written nonsense");
      return sink_.put_made(term_.number, leaves->data(), Clock::now() + wait);
    } catch (const std::invalid_argument&) {
      break_off();
      return Status::kFailed;
    }
  }

  /// Notes which item an entry of the term is, before anybody can see it in the ring.
  void note(std::uint64_t entry, std::uint64_t number) {
    if (term_.ordered == ItemBoard::kNone) return;
    const std::lock_guard lock(mutex_);
    journals_.back().enter(entry, number - term_.first);
  }

  /// An item that no worker will be done with; `place`: what its worker had taken.
  void give_up(std::uint64_t number, std::optional<std::uint64_t> place) {
    if (entry(number).item_done) return;
    if (areas_) {
      sink_.end_making(1);
      ++all_made_;
    }
    const bool taken = place && is_open(*place, &Entry::place_done);
    finish(number, taken ? place : std::nullopt);
  }

  /// Marks an item as done. For examples of one size its place is published: one that
  /// nobody has written is of a term that has failed.
  void finish(std::uint64_t number, std::optional<std::uint64_t> place) {
    const bool written = place.has_value();
    entry(number).item_done = true;
    if (!areas_) {
      if (!place)
        place = entry(number).ordered ? number : board().take_place(Taken::kTrainer);
      if (place) publish(*place, number, written);
    }
    outstanding_.fetch_sub(1, std::memory_order_relaxed);
    std::uint64_t done = oldest();
    const std::uint64_t end = submitted();
    while (done < end && entry(done).item_done && entry(done).place_done) ++done;
    // Release: what is below is free.
    oldest_.store(done, std::memory_order_release);
    board().oldest.store(done, std::memory_order_release);
  }

  void publish(std::uint64_t place, std::uint64_t number, bool written) {
    if (written && place >= term_.first && number >= term_.first)
      note(place - term_.first, number);
    sink_.commit(entry(place).position, 1);
    entry(place).place_done = true;
  }

  RecordSink& sink_;
  const ControlBlock& block_;
  const RowsAreas* const areas_;
  const std::uint64_t keep_;
  std::vector<Entry> entries_;  // of items from the oldest on
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> oldest_{0};
  // Relaxed: a limit of what is offered; entries are free by `oldest_`.
  std::atomic<std::uint64_t> outstanding_{0};

  std::mutex collecting_;            // guards what follows
  Term term_;                        // changed by the thread that offers
  std::vector<std::uint64_t> read_;  // entries of each worker that were taken in
  std::vector<std::uint64_t> made_;  // entries of each worker that were seen
  std::uint64_t all_made_ = 0;
  std::optional<std::uint64_t> entering_;  // has rows: it waits for room
  bool broken_ = false;

  mutable std::mutex mutex_;  // behind `collecting_`; guards what follows
  std::list<ArrivalJournal> journals_;
};

}  // namespace echobuf::workers
