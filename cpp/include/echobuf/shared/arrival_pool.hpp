// Runs in the trainer: offers items to worker processes, of which each takes the next
// when it has made one, and lets them enter the ring in the order in which they arrive.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/shared/arrival_journal.hpp"
#include "echobuf/shared/arrival_sink.hpp"
#include "echobuf/shared/collector.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/rows_area.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// The memory in which workers leave examples that differ in length.
struct ArrivalAreas {
  AreaRecord record;
  RowsAreas areas;
};

/// The trainer's end of the board. One thread at a time submits; a thread of the pool
/// lets items enter. An item that is slow holds up no other, up to
/// ItemBoard::kItems - 1 behind it.
class ArrivalPool {
 public:
  /// `ahead`: items that are offered or made, for each worker. `keep`: entries of a
  /// term that entered() knows. `areas`: null for records of one size. Throws
  /// std::bad_alloc, std::system_error.
  ArrivalPool(std::unique_ptr<ArrivalSink> sink, std::uint64_t workers,
              std::uint64_t ahead, std::uint64_t keep,
              std::unique_ptr<ArrivalAreas> areas)
      : sink_(std::move(sink)),
        block_(workers),
        most_(std::clamp<std::uint64_t>(workers * ahead, 1, ItemBoard::kItems / 2)),
        keep_(keep),
        areas_(std::move(areas)),
        entries_(ItemBoard::kItems),
        read_(workers),
        made_(workers) {
    board().used.store(1, std::memory_order_relaxed);
    collector_ = std::thread([this] {
      collect_until(ending_, block_.header().done, collected_,
                    [this] { return collect_all(); });
    });
  }

  /// As ~WorkerPool().
  ~ArrivalPool() {
    close();
    ending_.store(true, std::memory_order_release);
    block_.header().done.notify();
    collector_.join();
  }
  ArrivalPool(const ArrivalPool&) = delete;
  ArrivalPool& operator=(const ArrivalPool&) = delete;

  const ControlBlock& control_block() const { return block_; }
  /// Null for records of one size.
  const ArrivalAreas* areas() const { return areas_.get(); }

  /// Begins a term, of which the first `ordered` items enter in the order of their
  /// submission. All items of the last one have entered, or were revoked.
  void begin(std::uint64_t term, std::uint64_t ordered) {
    const std::lock_guard lock(mutex_);
    first_item_ = submitted_;
    journals_.emplace_back(term, ordered, keep_);
    if (journals_.size() > 2) journals_.pop_front();  // the last may be served out yet
  }

  /// Submits items `submitted` ... n-1 of `indices`, and counts them. kClosed: the term
  /// has ended.
  Status submit(std::uint64_t term, const std::int64_t* indices, std::uint64_t n,
                std::uint64_t& submitted, Deadline deadline) {
    while (submitted < n) {
      const Status free = wait_for(deadline, nullptr, [&]() -> Attempt {
        if (sink_->has_ended(term)) return {Status::kClosed};
        if (has_room()) return {Status::kOk};
        return {Status::kTimeout, &collected_};
      });
      if (free != Status::kOk) return free;
      std::uint64_t position = 0;
      if (areas_) {
        sink_->begin_making(1);
      } else {
        const Status room = sink_->claim(term, position, deadline);
        if (room != Status::kOk) return room;
      }
      offer(indices[submitted], position);
      ++submitted;
    }
    return Status::kOk;
  }

  /// The number of items submitted so far.
  std::uint64_t submitted() const {
    return board().submitted.load(std::memory_order_acquire);
  }

  /// Revokes the items below `count`, as WorkerPool::revoke(). Those that nobody makes
  /// are done at once.
  void revoke(std::uint64_t term, std::uint64_t count) {
    abandon(term);
    {
      const std::lock_guard collecting(collecting_);
      if (count > board().revoked.load(std::memory_order_relaxed))
        board().revoked.store(count, std::memory_order_release);
      for (auto n = oldest(); n < count; ++n)
        if (board().at(n).item.take(n, Taken::kTrainer) || broken_) give_up(n, {});
    }
    board().work.notify();
    for (std::uint64_t i = 0; i < read_.size(); ++i) block_.queue(i).work.notify();
    collected_.notify();
  }

  /// Ends a term as failed, unless another one has begun.
  void abandon(std::uint64_t term) {
    sink_->fail(term);
    collected_.notify();
  }

  bool is_wanted(std::uint64_t item) const {
    return item >= board().revoked.load(std::memory_order_acquire);
  }

  /// Marks as done the revoked items that a worker has taken whose process has ended.
  void reap(std::uint64_t worker) {
    {
      const std::lock_guard collecting(collecting_);
      collect(worker);
      const std::uint64_t end = board().revoked.load(std::memory_order_relaxed);
      for (auto n = oldest(); n < end; ++n)
        if (board().at(n).item.is_by(n, worker))
          give_up(n, board().held(&ItemBoard::Item::place, worker));
    }
    collected_.notify();
  }

  /// Waits until the items below `count` have entered, or were given up.
  Status wait_committed(std::uint64_t count, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (oldest() >= count) return {Status::kOk};
      return {Status::kTimeout, &collected_};
    });
  }

  /// Returns the index of the example that a worker makes now.
  std::optional<std::int64_t> making(std::uint64_t worker) const {
    const auto item = board().held(&ItemBoard::Item::item, worker);
    if (!item) return std::nullopt;
    return board().at(*item).index;
  }

  /// Returns what has entered in a term, from an entry on, and the first item behind
  /// all that has; none of a term that is not known. Throws std::out_of_range.
  std::optional<std::pair<ArrivalJournal::Entered, std::uint64_t>> entered(
      std::uint64_t term, std::uint64_t from) const {
    const std::lock_guard lock(mutex_);
    for (const ArrivalJournal& journal : journals_)
      if (journal.term() == term) return {{journal.entered(from), journal.limit()}};
    return std::nullopt;
  }

  /// Asks the workers to end.
  void close() {
    block_.header().closed.store(1, std::memory_order_release);
    board().work.notify();
    for (std::uint64_t i = 0; i < read_.size(); ++i) block_.queue(i).work.notify();
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
  enum class Outcome { kDone, kNotYet, kNoRoom };

  /// See RowsDelivery.
  static constexpr auto kMoment = std::chrono::milliseconds(1);
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  ItemBoard& board() const { return block_.board(); }
  Entry& entry(std::uint64_t number) { return entries_[number % ItemBoard::kItems]; }
  std::uint64_t oldest() const {
    return board().oldest.load(std::memory_order_acquire);
  }

  bool has_room() const {
    const std::lock_guard lock(mutex_);
    return outstanding_ < most_ && submitted_ - oldest() < ItemBoard::kItems;
  }

  void offer(std::int64_t index, std::uint64_t position) {
    {
      const std::lock_guard lock(mutex_);
      const std::uint64_t number = submitted_++;
      if (number == first_item_) first_position_ = position;
      const bool ordered = number - first_item_ < journals_.back().ordered();
      entry(number) = {position, ordered, false, areas_ != nullptr};
      ++outstanding_;
      ItemBoard::Item& item = board().at(number);
      item.index = index;
      item.position = position;
      item.own = ordered && !areas_ ? number : ItemBoard::kNone;
      if (ordered)
        item.place.reserve(number);
      else
        item.place.offer(number);
      item.item.offer(number);
      // Release: the item comes with it.
      board().submitted.store(number + 1, std::memory_order_release);
    }
    board().work.notify();
  }

  // ---- the collector, and those that hold `collecting_`

  bool collect_all() {
    const std::lock_guard collecting(collecting_);
    bool any = false;
    for (std::uint64_t i = 0; i < read_.size(); ++i) any |= collect(i);
    return any;
  }

  /// Takes in what a worker has done. Returns false if there is nothing for now.
  bool collect(std::uint64_t worker) {
    WorkerQueue& queue = block_.queue(worker);
    // Acquire: pairs with QueueWorker::done(). A worker with corrupted memory may say
    // anything.
    const std::uint64_t done = std::min(queue.done.load(std::memory_order_acquire),
                                        read_[worker] + WorkerQueue::kDepth);
    note_made(worker, done);
    bool any = false;
    for (std::uint64_t& read = read_[worker]; read < done; any = true) {
      const Outcome outcome =
          take_in(worker, queue.tickets[read % WorkerQueue::kDepth], read);
      if (outcome == Outcome::kNoRoom) return true;
      if (outcome == Outcome::kNotYet) break;
      ++read;
      // Release, here and below: the trainer has read the example.
      if (areas_)
        areas_->areas.header(worker).collected.store(read, std::memory_order_release);
      queue.submitted.store(read, std::memory_order_release);
    }
    if (any) queue.work.notify();  // the worker may wait for room
    return any;
  }

  void note_made(std::uint64_t worker, std::uint64_t done) {
    if (done <= made_[worker]) return;
    sink_->end_making(done - made_[worker]);
    all_made_ += done - made_[worker];
    made_[worker] = done;
  }

  Outcome take_in(std::uint64_t worker, const Ticket& ticket, std::uint64_t read) {
    const auto number = static_cast<std::uint64_t>(ticket.index);
    const std::uint64_t place = ticket.position;
    if (!is_open(number, &Entry::item_done) ||
        (place != ItemBoard::kNone && !is_open(place, &Entry::place_done) && !areas_)) {
      break_off();
      return Outcome::kDone;
    }
    if (areas_) return put(worker, number, read);
    finish(number, place != ItemBoard::kNone ? std::optional(place) : std::nullopt);
    return Outcome::kDone;
  }

  bool is_open(std::uint64_t number, bool Entry::*done) {
    return number >= oldest() && number < submitted() && !(entry(number).*done);
  }

  /// A worker has written nonsense: nothing of this term can be relied on.
  void break_off() {
    broken_ = true;
    sink_->fail(term());
  }

  std::uint64_t term() const {
    const std::lock_guard lock(mutex_);
    return journals_.back().term();
  }

  /// Puts an example that differs from others in length.
  Outcome put(std::uint64_t worker, std::uint64_t number, std::uint64_t read) {
    // Acquire: a revoked item may be done unwritten.
    if (number < board().revoked.load(std::memory_order_acquire)) {
      entering_.reset();
      finish(number, std::nullopt);
      return Outcome::kDone;
    }
    if (entering_ != number) {
      if (entering_ || !is_due(number)) return Outcome::kNotYet;
      const std::lock_guard lock(mutex_);
      ArrivalJournal& journal = journals_.back();
      journal.enter(journal.end(), number - first_item_);
      entering_ = number;  // whatever is there is next, though there is no room yet
    }
    const auto leaves = areas_->areas.read(worker, read, areas_->record);
    const bool making = all_made_ < submitted();
    const auto wait = making ? Clock::duration(kMoment) : Clock::duration(kSlice);
    try {
      if (!leaves) throw std::invalid_argument("a worker has written nonsense");
      if (sink_->put_made(term(), leaves->data(), Clock::now() + wait) ==
          Status::kTimeout)
        return Outcome::kNoRoom;
    } catch (const std::invalid_argument&) {
      break_off();
    }
    entering_.reset();
    finish(number, std::nullopt);
    return Outcome::kDone;
  }

  /// Items whose order is fixed enter first.
  bool is_due(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const ArrivalJournal& journal = journals_.back();
    return journal.end() >= journal.ordered() || journal.end() == number - first_item_;
  }

  /// An item that no worker will be done with; `place`: what its worker had taken.
  void give_up(std::uint64_t number, std::optional<std::uint64_t> place) {
    if (entry(number).item_done) return;
    sink_->end_making(1);
    ++all_made_;
    const bool taken = place && is_open(*place, &Entry::place_done);
    finish(number, taken ? place : std::nullopt);
  }

  /// Marks an item as done. For records of one size its place is published: one that
  /// nobody has written is of a term that has failed.
  void finish(std::uint64_t number, std::optional<std::uint64_t> place) {
    const bool written = place.has_value();
    if (!areas_ && !place) {
      if (entry(number).ordered)
        place = number;
      else
        place = board().take_place(Taken::kTrainer);
    }
    const std::lock_guard lock(mutex_);
    entry(number).item_done = true;
    --outstanding_;
    if (!areas_ && place) {
      Entry& at = entry(*place);
      // First: a record that is drawn is one that a state knows.
      if (written && at.position >= first_position_ && number >= first_item_)
        journals_.back().enter(at.position - first_position_, number - first_item_);
      sink_->commit(at.position);
      at.place_done = true;
    }
    std::uint64_t done = oldest();
    while (done < submitted_ && entry(done).item_done && entry(done).place_done) ++done;
    // Release: what is below is free.
    board().oldest.store(done, std::memory_order_release);
  }

  const std::unique_ptr<ArrivalSink> sink_;
  const ControlBlock block_;
  const std::uint64_t most_;
  const std::uint64_t keep_;
  const std::unique_ptr<ArrivalAreas> areas_;
  EventCount collected_;
  std::atomic<bool> ending_{false};

  mutable std::mutex mutex_;  // guards what follows; held for moments
  std::vector<Entry> entries_;
  std::list<ArrivalJournal> journals_;
  std::uint64_t submitted_ = 0;
  std::uint64_t outstanding_ = 0;
  std::uint64_t first_item_ = 0;      // of the term
  std::uint64_t first_position_ = 0;  // of the term

  std::mutex collecting_;            // before `mutex_`; guards what follows
  std::vector<std::uint64_t> read_;  // tickets of each worker that were taken in
  std::vector<std::uint64_t> made_;  // tickets of each worker that were seen
  std::uint64_t all_made_ = 0;
  std::optional<std::uint64_t> entering_;  // of any length: it waits for room
  bool broken_ = false;

  std::thread collector_;  // last: it uses the rest
};

}  // namespace echobuf::workers
