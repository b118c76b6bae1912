// The trainer's side of a pool of workers, over the ring, the board, the queue of what
// is done and the event counts themselves. What Collector and WorkerPool do with them
// is written out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "echobuf/shared/worker_hold.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"
#include "explorer.hpp"

namespace echobuf::model {

struct PoolPlan {
  std::uint64_t items = 2;
  bool ordered = true;  // else workers take places, too
};

/// `kWorkers` of them, a board for `kBoard` items, and queues for one each: what comes
/// second is written over the first.
template <std::uint64_t kWorkers, std::uint64_t kBoard>
class PoolWorld {
 public:
  explicit PoolWorld(const PoolPlan& plan)
      : plan_(plan), ring_(plan.items), slots_(new std::uint64_t[plan.items]()) {}
  PoolWorld(const PoolWorld&) = delete;

 protected:
  using Board = workers::BasicItemBoard<kBoard>;
  using Queue = workers::BasicDoneQueue<1>;
  using Hold = workers::WorkerHold<Board, Queue>;

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  // ---- the thread that submits

  /// Collector::offer().
  void offer(std::uint64_t position) {
    const std::uint64_t number = submitted_.load(std::memory_order_acquire);
    positions_[number % kBoard] = position;
    auto& item = board_.at(number);
    item.index = static_cast<std::int64_t>(number);
    item.position = position;
    item.ordered = plan_.ordered;
    item.turn.store(plan_.ordered ? number % kWorkers : Board::kNone,
                    std::memory_order_relaxed);
    if (!plan_.ordered) item.place.offer(number);
    item.item.offer(number);
    submitted_.store(number + 1, std::memory_order_release);
    board_.submitted.store(number + 1, std::memory_order_release);
  }

  // ---- the thread that collects; with the lock, if others give items up

  /// Collector::collect() of a worker.
  bool collect(std::uint64_t worker) {
    Queue& queue = queues_[worker];
    const std::uint64_t done = queue.done.load(std::memory_order_acquire);
    bool any = false;
    for (std::uint64_t& read = read_[worker]; read < done; any = true) {
      const workers::DoneItem& entry = queue.entries[read % Queue::kDepth];
      check(entry.item < submitted_.load(std::memory_order_acquire) &&
                entry.item >= oldest_.load(std::memory_order_acquire),
            "an item is done twice, or was never there");
      finish(entry.item, entry.place == Board::kNone ? entry.item : entry.place);
      queue.read.store(++read, std::memory_order_release);
    }
    if (any) queue.room.notify();
    return any;
  }

  /// Collector::finish(), of an item and the place where it was written.
  void finish(std::uint64_t item, std::uint64_t place) {
    check(!item_done_[item % kBoard], "an item is done twice");
    check(!place_done_[place % kBoard], "a place is written twice");
    item_done_[item % kBoard] = true;
    ring_.commit(positions_[place % kBoard], 1);
    place_done_[place % kBoard] = true;
    std::uint64_t done = oldest_.load(std::memory_order_acquire);
    const std::uint64_t end = submitted_.load(std::memory_order_acquire);
    for (; done < end && item_done_[done % kBoard] && place_done_[done % kBoard];
         ++done)
      item_done_[done % kBoard] = place_done_[done % kBoard] = false;
    oldest_.store(done, std::memory_order_release);
    board_.oldest.store(done, std::memory_order_release);
  }

  // ---- a worker

  /// Worker::write() and done(), unless the item is revoked.
  void make(Hold& hold) {
    if (!hold.is_revoked())
      slots_[hold.position()] = 1 + static_cast<std::uint64_t>(hold.index());
    hold.finish();
    done_.notify();
  }

  const PoolPlan plan_;
  Ring ring_;
  std::uint64_t* const slots_;
  Board board_;
  Queue queues_[kWorkers];
  EventCount done_;
  // Of the trainer.
  std::uint64_t positions_[kBoard] = {};
  bool item_done_[kBoard] = {}, place_done_[kBoard] = {};
  std::uint64_t read_[kWorkers] = {};
  std::atomic<std::uint64_t> submitted_{0}, oldest_{0};
};

}  // namespace echobuf::model
