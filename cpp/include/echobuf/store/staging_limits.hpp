// What bounds claims where records pass through a smaller staging ring on their way.
#pragma once

#include <atomic>
#include <cstdint>

namespace echobuf {

/// Positions and places below these may be staged; who empties staging moves them on.
struct StagingLimits {
  std::atomic<std::uint64_t> position;
  std::atomic<std::uint64_t> place;

  StagingLimits(std::uint64_t positions, std::uint64_t places)
      : position(positions), place(places) {}

  /// What is staged below `position`, and below `place` of the payload, is free again.
  void release(std::uint64_t positions, std::uint64_t places) {
    // Release: pairs with the acquire in Claims::claim(); the copies are done.
    place.store(places, std::memory_order_release);
    position.store(positions, std::memory_order_release);
  }
};

}  // namespace echobuf
