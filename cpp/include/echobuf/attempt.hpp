// Asleep until something can be done: the loop that every waiting consumer runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"
#include "echobuf/ring.hpp"

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

/// What came of trying once.
struct Attempt {
  Status status;                             // kTimeout: would wait
  EventCount* event = nullptr;               // for this
  std::optional<std::uint64_t> wanted = {};  // and for this position
};

/// Wakes the other consumers if this one said what it waits for and then came back
/// without waiting: the commits since named it, not them.
class Relay {
 public:
  ~Relay() {
    if (event_) event_->notify();
  }
  void arm(EventCount& event) { event_ = &event; }
  void disarm() { event_ = nullptr; }

 private:
  EventCount* event_ = nullptr;
};

/// Attempts until it is not kTimeout, asleep in between.
template <class Try>
Status wait_for(Ring& ring, Deadline deadline, std::atomic<std::int64_t>* waited,
                Try&& attempt_once) {
  Attempt attempt = attempt_once();
  std::optional<Stopwatch> watch;
  Relay relay;
  while (attempt.status == Status::kTimeout) {
    EventCount& event = *attempt.event;
    const std::optional<std::uint64_t> wanted = attempt.wanted;
    if (wanted) {
      relay.arm(event);
      ring.want(*wanted);
    }
    const std::uint32_t key = event.prepare();
    attempt = attempt_once();
    if (attempt.status != Status::kTimeout) break;
    if (attempt.event != &event || attempt.wanted != wanted) continue;
    if (Clock::now() >= deadline) {
      relay.disarm();
      return Status::kTimeout;
    }
    if (!watch && waited) watch.emplace(*waited);
    event.wait(key, deadline);
    attempt = attempt_once();
  }
  return attempt.status;
}

}  // namespace echobuf
