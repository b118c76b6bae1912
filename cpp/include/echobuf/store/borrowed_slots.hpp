// Slots that belong to another process: a ring over them only reads, and reports the
// positions that it has read.
#pragma once

#include <cstdint>
#include <memory>

#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/shared_window.hpp"

namespace echobuf {

/// The owner of borrowed slots, which writes them.
class SlotOwner {
 public:
  virtual ~SlotOwner() = default;

  /// Slots below this position of the ring are not read any more. Called by the
  /// consumer, or by the thread that starts an epoch.
  virtual void return_slots(std::uint64_t position) = 0;

  /// False once slots may have been written that were not given back: what was read
  /// since it was last true is not to be used. Of any thread.
  virtual bool is_held() const = 0;
};

/// A borrowed record that this buffer cannot draw, whose owner has other limits.
struct Misfit {
  enum Kind : int {
    kNone = 0,
    kShare,    // it has more bytes of rows than a segment's share
    kLength,   // it has more rows than `max_length`
    kUnequal,  // its fields are to be packed together, and differ in length
  };
  Kind kind = kNone;
  std::uint64_t size = 0;  // bytes, or rows
};

struct BorrowedSlots {
  std::shared_ptr<const SharedMemory> memory;
  std::uint64_t slots;
  std::uint64_t first;  // the position at which the ring begins
  std::shared_ptr<SlotOwner> slot_owner;
  SharedWindow window = {};  // of records that differ in length
};

}  // namespace echobuf
