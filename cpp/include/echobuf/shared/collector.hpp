// The loop of a pool's thread that collects what workers have made.
#pragma once

#include <atomic>
#include <chrono>

#include "echobuf/sync/event_count.hpp"

namespace echobuf::workers {

/// Collects until `ending`, asleep while there is nothing. `done`: notified by workers.
/// `collected`: notified when something was. `once`: returns true if something was.
template <class Once>
void collect_until(const std::atomic<bool>& ending, EventCount& done,
                   EventCount& collected, Once&& once) {
  // A worker that died between two instructions may have stored its progress and not
  // notified.
  constexpr auto kSlice = std::chrono::milliseconds(50);
  while (!ending.load(std::memory_order_acquire)) {
    if (once()) {
      collected.notify();
      continue;
    }
    const std::uint32_t key = done.prepare();
    if (once()) {
      collected.notify();
      continue;
    }
    if (ending.load(std::memory_order_acquire)) return;
    done.wait(key, Clock::now() + kSlice);
  }
}

}  // namespace echobuf::workers
