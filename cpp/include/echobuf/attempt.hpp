// Asleep until something can be done: the loop that every waiting consumer runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"

namespace echobuf {

/// Adds the time of its own life to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& total) : total_(total) {}
  ~Stopwatch() {
    const auto spent =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
    total_.fetch_add(spent.count(), std::memory_order_relaxed);
  }

 private:
  std::atomic<std::int64_t>& total_;
  const Deadline start_ = Clock::now();
};

/// A deadline for who only looks.
inline constexpr Deadline kAtOnce = Deadline::min();

/// What came of trying once.
struct Attempt {
  Status status;                          // kTimeout: would wait
  EventCount* event = nullptr;            // for this
  std::optional<std::uint32_t> key = {};  // prepared, and looked at again since
};

/// Attempts until it is not kTimeout, asleep in between.
template <class Try>
Status wait_for(Deadline deadline, std::atomic<std::int64_t>* waited,
                Try&& attempt_once) {
  Attempt attempt = attempt_once();
  std::optional<Stopwatch> watch;
  while (attempt.status == Status::kTimeout) {
    EventCount& event = *attempt.event;
    if (!attempt.key) {
      const std::uint32_t key = event.prepare();
      attempt = attempt_once();
      if (attempt.status != Status::kTimeout) break;
      if (attempt.event != &event) continue;
      if (!attempt.key) attempt.key = key;
    }
    if (Clock::now() >= deadline) return Status::kTimeout;
    if (!watch && waited) watch.emplace(*waited);
    event.wait(*attempt.key, deadline);
    attempt = attempt_once();
  }
  return attempt.status;
}

}  // namespace echobuf
