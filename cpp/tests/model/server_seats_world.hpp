// Small programs on a server's seats: a job reads slots that the server writes again,
// may be dropped at any time, and another job may take its seat. Written out as in
// serve/, over the ring itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "echobuf/store/ring.hpp"
#include "explorer.hpp"

namespace echobuf::model {

/// The fault of a server or a job.
enum class SeatFault {
  kNone,
  kReleasesFirst,  // the server releases a dropped job's slots, then changes the holder
  kOnlyLoads,      // the job looks at the holder by a load, not by a read-modify-write
  kNeverLooks,     // the job does not look whether it was dropped
};

struct SeatsPlan {
  std::uint64_t records = 2;
  bool drops = false;  // the job, once it has released `drop_from` records
  std::uint64_t drop_from = 0;
  SeatFault fault = SeatFault::kNone;
};

/// One seat, and a ring of one slot.
class SeatsWorld {
 public:
  explicit SeatsWorld(const SeatsPlan& plan) : plan_(plan), ring_(1) {}
  SeatsWorld(const SeatsWorld&) = delete;

 protected:
  enum State : std::uint32_t { kFree, kWaiting, kTaken };

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  // ---- the server

  /// Upstream, and publish(): record n is 1 + n.
  void put_and_publish(std::uint64_t from, std::uint64_t end) {
    for (std::uint64_t n = from; n < end; ++n) {
      while (!ring_.has_room()) pause();
      ring_.claim(1, ring_.term());
      write(1 + n);
      ring_.commit(n, 1);
      published_.store(ring_.committed(), std::memory_order_release);
    }
    done_.store(true, std::memory_order_release);
  }

  /// in_use(): from this position on the job reads slots. With the lock.
  std::uint64_t in_use() const {
    const std::uint64_t published = published_.load(std::memory_order_acquire);
    if (state_.load(std::memory_order_relaxed) != kTaken) return published;
    const std::uint64_t released = released_.load(std::memory_order_acquire);
    return released < published ? released : published;
  }

  /// The keeper's release().
  void release() {
    const std::lock_guard lock(seats_);
    const std::uint64_t position = in_use();
    if (position > ring_.released()) ring_.release(position);
  }

  void drop() {
    const std::lock_guard lock(seats_);
    if (plan_.fault == SeatFault::kReleasesFirst)
      ring_.release(published_.load(std::memory_order_acquire));
    holder_.fetch_add(1, std::memory_order_acq_rel);
    state_.store(kFree, std::memory_order_relaxed);
  }

  // ---- the job `holder`

  bool is_held(std::uint64_t holder) {
    if (plan_.fault == SeatFault::kNeverLooks) return true;
    if (plan_.fault == SeatFault::kOnlyLoads)
      return holder_.load(std::memory_order_acquire) == holder;
    return holder_.fetch_add(0, std::memory_order_acq_rel) == holder;
  }

  /// raise_to(), but for a weak exchange: where one fails for nothing, is_held() would
  /// write without end.
  void give_back(std::uint64_t holder, std::uint64_t position) {
    std::uint64_t before = released_.load(std::memory_order_relaxed);
    while (before < position && is_held(holder) &&
           !released_.compare_exchange_strong(before, position,
                                              std::memory_order_release,
                                              std::memory_order_relaxed)) {
    }
  }

  /// Reads record n once it is there; false if the job was dropped.
  bool read_record(std::uint64_t holder, std::uint64_t n) {
    while (published_.load(std::memory_order_acquire) <= n) {
      if (holder_.load(std::memory_order_acquire) != holder) return false;
      pause();
    }
    const std::uint64_t record = read();
    if (!is_held(holder)) return false;  // the batch is given up
    check(record == 1 + n, "a batch holds another record");
    return true;
  }

  // A job that was dropped may read what the server writes, and gives it up: no plain
  // memory here, and in programs without it races are looked for.
  void write(std::uint64_t value) {
    if (plan_.drops)
      torn_slot_.store(value, std::memory_order_relaxed);
    else
      slot_ = value;
  }
  std::uint64_t read() const {
    return plan_.drops ? torn_slot_.load(std::memory_order_relaxed) : slot_;
  }

  const SeatsPlan plan_;
  Ring ring_;
  std::uint64_t slot_ = 0;
  std::atomic<std::uint64_t> torn_slot_{0};
  mutable std::mutex seats_;
  std::atomic<std::uint64_t> published_{0}, holder_{1}, released_{0};
  std::atomic<std::uint32_t> state_{kTaken};
  std::uint64_t base_ = 0;  // with the state kTaken
  std::atomic<bool> done_{false};
};

/// Thread 0 puts records, 1 keeps the seat and may drop the job, 2 is the job.
class JobBesideServer : public SeatsWorld {
 public:
  static constexpr int kThreads = 3;
  using SeatsWorld::SeatsWorld;

  void run(int thread) {
    if (thread == 0) return put_and_publish(0, plan_.records);
    if (thread == 1) return keep();
    while (served_ < plan_.records && read_record(1, served_)) give_back(1, ++served_);
  }

  void end() {
    check(plan_.drops || served_ == plan_.records, "a job that is kept gets all");
    outcome(served_);
  }

 private:
  void keep() {
    bool dropped = !plan_.drops;
    while (!done_.load(std::memory_order_acquire) || !dropped) {
      if (!dropped && released_.load(std::memory_order_relaxed) >= plan_.drop_from) {
        drop();
        dropped = true;
      }
      release();
      pause();
    }
  }

  std::uint64_t served_ = 0;
};

/// Record 0 is published to job 1. Thread 0 drops it and gives its seat to job 2, whose
/// epoch begins behind it; 1 is job 1, which is late to release its slot; 2 is job 2.
class SeatTakenAgain : public SeatsWorld {
 public:
  static constexpr int kThreads = 3;
  explicit SeatTakenAgain(const SeatsPlan& plan) : SeatsWorld(plan) {
    ring_.claim(1, ring_.term());
    ring_.commit(0, 1);
    published_.store(ring_.committed(), std::memory_order_relaxed);
  }

  void run(int thread) {
    if (thread == 1) return give_back(1, 1);
    if (thread == 2) return be_second_job();
    drop();
    take_seat();
    begin_epoch();
    for (std::uint64_t n = 1; n < plan_.records; ++n) {
      while (!ring_.has_room()) {
        release();
        pause();
      }
      ring_.claim(1, ring_.term());
      write(1 + n);
      ring_.commit(n, 1);
      published_.store(ring_.committed(), std::memory_order_release);
    }
  }

  void end() {
    check(served_ == plan_.records, "the second job gets all that is its own");
    outcome(served_);
  }

 private:
  void take_seat() {
    const std::lock_guard lock(seats_);
    released_.store(0, std::memory_order_relaxed);
    state_.store(kWaiting, std::memory_order_relaxed);
    holder_.store(3, std::memory_order_release);
  }

  void begin_epoch() {
    const std::lock_guard lock(seats_);
    base_ = ring_.tail();
    released_.store(base_, std::memory_order_relaxed);
    state_.store(kTaken, std::memory_order_release);
  }

  void be_second_job() {
    while (holder_.load(std::memory_order_acquire) != 3) pause();
    while (state_.load(std::memory_order_acquire) != kTaken) pause();
    served_ = base_;
    check(served_ == 1, "its epoch begins behind what was published before");
    while (served_ < plan_.records && read_record(3, served_)) give_back(3, ++served_);
  }

  std::uint64_t served_ = 0;
};

}  // namespace echobuf::model
