// Waiting for room in a ring, for those who put.
#pragma once

#include <cstdint>
#include <utility>

#include "echobuf/status.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_clock.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf {

/// Waits for `room`, the event that there may be some, or says why not. `is_over`: says
/// whether the term of the put is; `has_room`: whether there is room by now. `Wait`:
/// says to `waits` for how long this has waited.
template <class Wait, class Waits, class IsOver, class HasRoom>
Status wait_for_room(EventCount& room, Waits& waits, WaitLimit& wait_limit,
                     const IsOver& is_over, const HasRoom& has_room) {
  const std::uint32_t key = room.prepare();
  if (is_over()) return Status::kClosed;
  if (has_room()) return Status::kOk;
  const Deadline now = Clock::now();
  const bool over = now >= wait_limit.end;
  // A wait before the call counts, also if it was all of the caller's time.
  if (over && !wait_limit.since) return Status::kTimeout;
  const Wait wait(waits, wait_limit.since.value_or(now));
  wait_limit.since.reset();  // of the first wait alone
  if (over) return Status::kTimeout;
  room.wait(key, wait_limit.end);
  return Status::kOk;
}

}  // namespace echobuf
