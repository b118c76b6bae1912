// The trainer's side: gives examples out to worker processes, and commits what they
// have written, in whatever order that comes; the ring keeps the order they were given.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/sync/wait_for.hpp"
#include "echobuf/workers/board.hpp"

namespace echobuf::workers {

/// `Core`: a BasicBuffer with `shared`, or a Station. One thread at a time gives; a
/// thread of the crew's own commits.
template <class Core>
class Crew {
 public:
  /// `ahead`: tickets that a worker may have at a time. Throws std::bad_alloc,
  /// std::system_error.
  Crew(std::shared_ptr<Core> buffer, std::uint64_t workers, std::uint64_t ahead)
      : buffer_(std::move(buffer)),
        board_(workers),
        lanes_(workers),
        ahead_(std::clamp<std::uint64_t>(ahead, 1, Lane::kDepth)),
        collector_([this] { collect(); }) {}  // last: if it throws, nothing is joined

  /// Workers may still be there: they are told to end, and what they write from now on
  /// nobody reads.
  ~Crew() {
    close();
    ending_.store(true, std::memory_order_release);
    board_.header().done.notify();
    collector_.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  const Board& board() const { return board_; }

  /// Gives out examples `given` ... n-1 of `indices` and counts them. kClosed: the term
  /// has ended, or tickets were revoked.
  Status give(std::uint64_t term, const std::int64_t* indices, std::uint64_t n,
              std::uint64_t& given, Deadline deadline) {
    while (given < n) {
      Own* lane = nullptr;
      const Status free = wait_for(deadline, nullptr, [&]() -> Attempt {
        if (has_ended(term)) return {Status::kClosed};
        lane = emptiest();
        if (lane->outstanding() < ahead_) return {Status::kOk};
        return {Status::kTimeout, &collected_};
      });
      if (free != Status::kOk) return free;
      Ticket ticket{indices[given], 0};
      std::uint64_t one = 1;
      const Status room = buffer_->claim(term, ticket.position, one, deadline);
      if (room != Status::kOk) return room;
      give(*lane, ticket);
      ++given;
    }
    return Status::kOk;
  }

  /// How many tickets each lane has been given by now.
  std::vector<std::uint64_t> given() const {
    std::vector<std::uint64_t> counts(lanes_.size());
    for (std::uint64_t i = 0; i < lanes_.size(); ++i)
      counts[i] = lanes_[i].given.load(std::memory_order_acquire);
    return counts;
  }

  /// What was given up to these counts is not wanted any more; workers finish what they
  /// are at. Ends the term first, as abandon() does: tickets that are revoked are
  /// called done unwritten, and must find a buffer that serves nothing more. All that
  /// is outstanding is of one term, since the next begins when it is committed. One
  /// thread at a time.
  void revoke(std::uint64_t term, const std::vector<std::uint64_t>& counts) {
    abandon(term);
    for (std::uint64_t i = 0; i < lanes_.size(); ++i) {
      Lane& shared = board_.lane(i);
      if (counts[i] <= shared.revoked.load(std::memory_order_relaxed)) continue;
      // Release: pairs with Worker::is_revoked(); whoever sees the commit that comes of
      // it sees the failure, too.
      shared.revoked.store(counts[i], std::memory_order_release);
      shared.work.notify();
    }
    collected_.notify();  // whoever gives looks whether the term has ended
  }

  /// Ends a term as failed, unless another one has begun.
  void abandon(std::uint64_t term) {
    buffer_->fail(term);
    collected_.notify();
  }

  /// Whether a ticket of a lane is still to be made.
  bool is_wanted(std::uint64_t lane, std::uint64_t ticket) const {
    return ticket >= board_.lane(lane).revoked.load(std::memory_order_acquire);
  }

  /// Calls done what the worker of a lane has left undone of what was revoked. Its
  /// process must have ended.
  void bury(std::uint64_t lane) {
    Lane& shared = board_.lane(lane);
    const std::uint64_t revoked = shared.revoked.load(std::memory_order_acquire);
    if (shared.done.load(std::memory_order_acquire) < revoked)
      shared.done.store(revoked, std::memory_order_release);
    board_.header().done.notify();
  }

  /// Waits until all that was given up to these counts is committed. Not all that was
  /// given: the next epoch may have been begun ahead.
  Status settle(const std::vector<std::uint64_t>& counts, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_committed(counts)) return {Status::kOk};
      return {Status::kTimeout, &collected_};
    });
  }

  /// Tickets of a lane that are not committed yet.
  std::uint64_t outstanding(std::uint64_t lane) const {
    return lanes_[lane].outstanding();
  }

  /// Tells the workers to end.
  void close() {
    board_.header().closed.store(1, std::memory_order_release);
    for (std::uint64_t i = 0; i < lanes_.size(); ++i) board_.lane(i).work.notify();
  }

 private:
  /// What the trainer knows of a lane, which no worker can change.
  struct alignas(kNoSharing) Own {
    std::atomic<std::uint64_t> given{0};
    std::atomic<std::uint64_t> committed{0};
    std::array<std::uint64_t, Lane::kDepth> positions{};

    // Acquire: pairs with the collector's release; the places of tickets that are
    // committed are free.
    std::uint64_t outstanding() const {
      return given.load(std::memory_order_acquire) -
             committed.load(std::memory_order_acquire);
    }
  };

  Own* emptiest() {
    Own* best = &lanes_.front();
    std::uint64_t least = best->outstanding();
    for (Own& lane : lanes_) {
      const std::uint64_t own = lane.outstanding();
      if (own < least) {
        best = &lane;
        least = own;
      }
    }
    return best;
  }

  void give(Own& lane, const Ticket& ticket) {
    Lane& shared = board_.lane(static_cast<std::uint64_t>(&lane - lanes_.data()));
    const std::uint64_t number = lane.given.load(std::memory_order_relaxed);
    lane.positions[number % Lane::kDepth] = ticket.position;
    shared.tickets[number % Lane::kDepth] = ticket;
    // Release: the collector finds the position.
    lane.given.store(number + 1, std::memory_order_release);
    shared.given.store(number + 1, std::memory_order_release);
    shared.work.notify();
  }

  bool has_ended(std::uint64_t term) const {
    std::uint64_t done = 0;
    return buffer_->put(term, nullptr, 0, 0, done, kAtOnce, nullptr) == Status::kClosed;
  }

  bool is_committed(const std::vector<std::uint64_t>& counts) const {
    for (std::uint64_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].committed.load(std::memory_order_acquire) < counts[i]) return false;
    return true;
  }

  /// Commits what is done. No more than was given is ever committed, whatever a worker
  /// that has lost its mind has written on the board.
  bool collect_once() {
    bool any = false;
    for (std::uint64_t i = 0; i < lanes_.size(); ++i) {
      Own& lane = lanes_[i];
      // Acquire: pairs with Worker::done().
      const std::uint64_t done =
          std::min(board_.lane(i).done.load(std::memory_order_acquire),
                   lane.given.load(std::memory_order_acquire));
      std::uint64_t next = lane.committed.load(std::memory_order_relaxed);
      any |= next < done;
      for (; next < done; ++next)
        buffer_->commit(lane.positions[next % Lane::kDepth], 1);
      lane.committed.store(next, std::memory_order_release);
    }
    return any;
  }

  void collect() {
    EventCount& done = board_.header().done;
    while (!ending_.load(std::memory_order_acquire)) {
      if (collect_once()) {
        collected_.notify();
        continue;
      }
      const std::uint32_t key = done.prepare();
      if (collect_once()) {
        collected_.notify();
        continue;
      }
      if (ending_.load(std::memory_order_acquire)) return;
      done.wait(key, Clock::now() + kSlice);
    }
  }

  /// A worker that died between two instructions may have left a mark or a bell unrung.
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  const std::shared_ptr<Core> buffer_;
  const Board board_;
  std::vector<Own> lanes_;
  const std::uint64_t ahead_;
  EventCount collected_;
  std::atomic<bool> ending_{false};
  std::thread collector_;  // last: it uses the rest
};

}  // namespace echobuf::workers
