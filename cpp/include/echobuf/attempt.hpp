// Asleep until something can be done: the loop that every waiting consumer runs.
#pragma once

#include <cstdint>
#include <optional>

#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"
#include "echobuf/wait_clock.hpp"

namespace echobuf {

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
Status wait_for(Deadline deadline, WaitClock* waits, Try&& attempt_once) {
  Attempt attempt = attempt_once();
  std::optional<WaitClock::Stay> stay;
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
    if (!stay && waits) stay.emplace(*waits);
    event.wait(*attempt.key, deadline);
    attempt = attempt_once();
  }
  return attempt.status;
}

}  // namespace echobuf
