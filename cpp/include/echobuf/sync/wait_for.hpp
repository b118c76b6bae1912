// The loop of every consumer that waits: sleeps until an attempt succeeds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "echobuf/status.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_clock.hpp"

namespace echobuf {

/// The deadline of calls that do not wait.
inline constexpr Deadline kAtOnce = Deadline::min();

/// The time that a call with no time left waits for uploads, which are not upstream's.
inline constexpr auto kUploadWait = std::chrono::seconds(1);

/// The limit of a call's wait. A caller that has waited before it called says since
/// when, so that all of its wait is counted.
struct WaitLimit {
  WaitLimit(Deadline until) : end(until) {}  // NOLINT(google-explicit-constructor)
  WaitLimit(Deadline until, std::optional<Deadline> begun) : end(until), since(begun) {}

  Deadline end;
  std::optional<Deadline> since;
};

/// The result of one attempt.
struct Attempt {
  Status status;                          // kTimeout: would wait
  EventCount* event = nullptr;            // for this
  std::optional<std::uint32_t> key = {};  // prepared, and looked at again since
};

/// Attempts until it is not kTimeout, asleep in between.
template <class Try>
Status wait_for(const WaitLimit& wait_limit, WaitClock* waits, Try&& attempt_once) {
  Attempt attempt = attempt_once();
  std::optional<WaitClock::Guard> guard;
  while (attempt.status == Status::kTimeout) {
    EventCount& event = *attempt.event;
    if (!attempt.key) {
      const std::uint32_t key = event.prepare();
      attempt = attempt_once();
      if (attempt.status != Status::kTimeout) break;
      if (attempt.event != &event) continue;
      if (!attempt.key) attempt.key = key;
    }
    const Deadline now = Clock::now();
    const bool over = now >= wait_limit.end;
    // A wait before the call counts, also if it was all of the caller's time.
    if (!guard && waits && (!over || wait_limit.since))
      guard.emplace(*waits, wait_limit.since.value_or(now));
    if (over) return Status::kTimeout;
    event.wait(*attempt.key, wait_limit.end);
    attempt = attempt_once();
  }
  return attempt.status;
}

}  // namespace echobuf
