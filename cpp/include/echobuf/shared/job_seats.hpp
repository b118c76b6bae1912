// Seats that a server's jobs take: positions that each still reads, and leases.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/shared/lease_timer.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_clock.hpp"

namespace echobuf::serve {

/// The state of a job, for status reports.
struct JobReport {
  std::uint64_t seat;
  bool waiting;         // for the next epoch to begin
  std::uint64_t epoch;  // that it is in, or will be
  std::uint64_t taken;  // positions
  std::uint64_t held;   // positions that wait for it
  double silent_s;      // since its last sign of life
};

/// The server's side of the seats in a ring's header. One lock covers their states, and
/// the epochs that the server begins and ends.
class JobSeats {
 public:
  JobSeats(RingHeader& header, double lease_s)
      : header_(header), lease_timer_(header, lease_s, now_ns()) {}
  JobSeats(const JobSeats&) = delete;
  JobSeats& operator=(const JobSeats&) = delete;

  /// Notified of a job that has come, and of one that may not be too far behind any
  /// more.
  EventCount& arrived() { return arrived_; }

  /// Assigns a seat to a job, from the next epoch on. Returns the numbers of the seat
  /// and of its holder; nothing if all seats are taken.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> take() {
    const std::lock_guard guard(mutex_);
    for (std::uint64_t i = 0; i < RingHeader::kSeats; ++i) {
      Seat& seat = header_.seats[i];
      if (seat.state != Seat::kFree) continue;
      const std::uint64_t holder = seat.holder + 1;
      seat.released = 0;
      seat.left = header_.begun.load();
      seat.taken = 0;
      seat.heartbeat_ns = now_ns();
      seat.state = Seat::kWaiting;
      seat.holder.store(holder, std::memory_order_release);
      arrived_.notify();
      return std::pair{i, holder};
    }
    return std::nullopt;
  }

  /// Frees the seat, if that holder still has it.
  void leave(std::uint64_t number, std::uint64_t holder) {
    const std::lock_guard guard(mutex_);
    Seat& seat = header_.seats[number];
    if (seat.holder == holder) clear(seat);
    header_.room.notify();
  }

  bool holds(std::uint64_t number, std::uint64_t holder) const {
    return number < RingHeader::kSeats && header_.seats[number].holder == holder &&
           header_.seats[number].state != Seat::kFree;
  }

  /// The jobs that are attached.
  std::vector<JobReport> reports() const {
    const std::lock_guard guard(mutex_);
    std::vector<JobReport> reports;
    const std::uint64_t published = header_.published;
    const std::int64_t now = now_ns();
    for (std::uint64_t i = 0; i < RingHeader::kSeats; ++i) {
      const Seat& seat = header_.seats[i];
      if (seat.state == Seat::kFree) continue;
      const bool waiting = seat.state == Seat::kWaiting;
      const std::uint64_t held =
          waiting ? 0 : published - std::min(published, read_by(seat));
      reports.push_back({i, waiting, seat.left, seat.taken, held,
                         to_seconds(now - seat.heartbeat_ns)});
    }
    return reports;
  }

  // ---- with the lock

  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  /// Begins the next epoch at position `base` for all jobs, if at least `jobs` are
  /// attached and none is too many epochs behind. False if not.
  bool begin_epoch(std::uint64_t jobs, std::uint64_t base) {
    const std::uint64_t next = header_.begun;
    std::uint64_t there = 0;
    for (const Seat& seat : header_.seats) {
      if (seat.state == Seat::kFree) continue;
      if (seat.state == Seat::kTaken && next - seat.left >= RingHeader::kEnds - 2)
        return false;
      ++there;
    }
    if (there < std::max<std::uint64_t>(jobs, 1)) return false;
    for (Seat& seat : header_.seats) {
      if (seat.state != Seat::kWaiting) continue;
      seat.first_epoch = next;
      seat.base = base;
      seat.released = base;
      seat.taken = base;
      seat.left = next;
      seat.state.store(Seat::kTaken, std::memory_order_release);
    }
    header_.begun.store(next + 1, std::memory_order_release);
    header_.news.notify();
    return true;
  }

  /// Frees the seats of jobs whose lease is over; called often. True if a job is left
  /// in an epoch.
  bool drop_silent() {
    lease_timer_.tick(now_ns());
    bool any = false;
    for (Seat& seat : header_.seats) {
      if (seat.state == Seat::kFree) continue;
      if (lease_timer_.has_expired(seat)) clear(seat);
      any |= seat.state == Seat::kTaken;
    }
    return any;
  }

  /// The lowest position that a job still reads; without jobs, the position at which
  /// the next one would begin.
  std::uint64_t in_use() const {
    std::uint64_t least = header_.published;
    for (const Seat& seat : header_.seats)
      if (seat.state == Seat::kTaken) least = std::min(least, read_by(seat));
    return least;
  }

 private:
  /// The position below which a job reads nothing any more.
  std::uint64_t read_by(const Seat& seat) const {
    // Acquire: pairs with the job's release.
    const std::uint64_t released = seat.released.load(std::memory_order_acquire);
    const std::uint64_t left = seat.left.load(std::memory_order_acquire);
    const std::uint64_t ended = header_.ended.load(std::memory_order_relaxed);
    if (left > ended)  // it has left the epoch that is going on
      return std::max(released, header_.published.load(std::memory_order_relaxed));
    return std::max(released, header_.base_of(left));
  }

  void clear(Seat& seat) {
    seat.holder.fetch_add(1, std::memory_order_acq_rel);
    seat.state = Seat::kFree;
  }

  RingHeader& header_;
  LeaseTimer lease_timer_;
  mutable std::mutex mutex_;
  EventCount arrived_;
};

}  // namespace echobuf::serve
