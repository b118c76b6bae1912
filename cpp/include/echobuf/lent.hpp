// Slots that are another process's: a ring over them reads, and says what it has read.
#pragma once

#include <cstdint>
#include <memory>

#include "echobuf/shared_memory.hpp"

namespace echobuf {

/// Whoever writes the slots.
class Lender {
 public:
  virtual ~Lender() = default;

  /// Slots below this position of the ring are not read any more. Of the consumer, or
  /// whoever starts an epoch.
  virtual void give_back(std::uint64_t position) = 0;

  /// False once slots may have been written that were not given back: what was read
  /// since it was last true is not to be used. Of any thread.
  virtual bool is_lent() const = 0;
};

struct LentSlots {
  std::shared_ptr<const SharedMemory> memory;
  std::uint64_t slots;
  std::uint64_t first;  // the position at which the ring begins
  std::shared_ptr<Lender> lender;
};

}  // namespace echobuf
