// Slots that are another process's: a ring over them reads, and says what it has read.
#pragma once

#include <cstdint>
#include <memory>

#include "echobuf/store/shared_memory.hpp"

namespace echobuf {

/// Whoever writes the slots.
class SlotOwner {
 public:
  virtual ~SlotOwner() = default;

  /// Slots below this position of the ring are not read any more. Of the consumer, or
  /// whoever starts an epoch.
  virtual void return_slots(std::uint64_t position) = 0;

  /// False once slots may have been written that were not given back: what was read
  /// since it was last true is not to be used. Of any thread.
  virtual bool is_held() const = 0;
};

struct BorrowedSlots {
  std::shared_ptr<const SharedMemory> memory;
  std::uint64_t slots;
  std::uint64_t first;  // the position at which the ring begins
  std::shared_ptr<SlotOwner> slot_owner;
};

}  // namespace echobuf
