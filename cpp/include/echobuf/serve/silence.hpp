// How long jobs have given no sign of life.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "echobuf/serve/feed.hpp"

namespace echobuf::serve {

/// Counts the time that the server was there to hear a job, and no other: where the
/// whole machine stood still, or all of these processes did, nobody was silent.
class Silence {
 public:
  /// Times in nanoseconds.
  Silence(const Header& header, double lease_s, std::int64_t now)
      : header_(header), lease_(static_cast<std::int64_t>(lease_s * 1e9)), now_(now) {}

  /// Before the seats are looked at, which is done often.
  void look(std::int64_t now) {
    heard_ = std::min(now - now_, kMost);
    now_ = now;
  }

  /// Whether a job has been silent for longer than its lease. Once a look.
  bool is_over(const Seat& seat) {
    Job& job = jobs_[static_cast<std::size_t>(&seat - header_.seats.data())];
    const std::int64_t beat = seat.beat_ns.load(std::memory_order_relaxed);
    job.silent = beat == job.beat ? job.silent + heard_ : 0;
    job.beat = beat;
    return job.silent > lease_;
  }

 private:
  static constexpr std::int64_t kMost = 100'000'000;

  struct Job {
    std::int64_t beat = 0;
    std::int64_t silent = 0;
  };

  const Header& header_;
  const std::int64_t lease_;
  std::int64_t now_;
  std::int64_t heard_ = 0;  // from the look before to this one
  std::array<Job, Header::kSeats> jobs_{};
};

}  // namespace echobuf::serve
