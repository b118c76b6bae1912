// Measures for how long jobs have sent no heartbeat.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "echobuf/shared/ring_header.hpp"

namespace echobuf::serve {

/// Counts only the time in which the server itself ran: if the whole machine was
/// suspended, or all of these processes were, no job has missed a heartbeat.
class LeaseTimer {
 public:
  /// Times in nanoseconds.
  LeaseTimer(const RingHeader& header, double lease_s, std::int64_t now)
      : header_(header), lease_(static_cast<std::int64_t>(lease_s * 1e9)), now_(now) {}

  /// Advances the clock; called often, before seats are checked.
  void tick(std::int64_t now) {
    heard_ = std::min(now - now_, kMost);
    now_ = now;
  }

  /// True if a job has been silent for longer than its lease. Called once a tick.
  bool has_expired(const Seat& seat) {
    Job& job = jobs_[static_cast<std::size_t>(&seat - header_.seats.data())];
    const std::int64_t heartbeat = seat.heartbeat_ns.load(std::memory_order_relaxed);
    job.silent = heartbeat == job.heartbeat ? job.silent + heard_ : 0;
    job.heartbeat = heartbeat;
    return job.silent > lease_;
  }

 private:
  static constexpr std::int64_t kMost = 100'000'000;

  struct Job {
    std::int64_t heartbeat = 0;
    std::int64_t silent = 0;
  };

  const RingHeader& header_;
  const std::int64_t lease_;
  std::int64_t now_;
  std::int64_t heard_ = 0;  // from the last tick to this one
  std::array<Job, RingHeader::kSeats> jobs_{};
};

}  // namespace echobuf::serve
