// The slots of a window in host memory, that producers write into and draws read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf {

/// Writes example `index` of `leaves` into a slot, or a whole batch of `rows` examples.
/// `large`: how large fields are copied, if not like others.
inline void write_record(const RecordLayout& layout, std::byte* slot,
                         const SourceLeaf* leaves, std::uint64_t index,
                         std::size_t rows, RowCopy large) {
  for (std::size_t f = 0; f < layout.fields().size(); ++f) {
    const Field& field = layout.fields()[f];
    const std::byte* row =
        leaves[f].data + static_cast<std::ptrdiff_t>(index) * leaves[f].stride;
    const std::size_t bytes = layout.bytes(f, rows);
    if (large && (bytes >= kStreamRow || layout.fills_lines()))
      large(slot + field.offset, row, bytes);
    else
      detail::copy_field(slot + field.offset, row, bytes);
  }
}

/// The slots as one array, and where in it the window of a pass begins.
struct SlotView {
  const std::byte* slots;
  std::uint64_t capacity;
  std::uint64_t first;  // slot of the window's first record

  std::uint64_t slot(std::uint32_t record) const {
    const std::uint64_t slot = first + record;
    return slot < capacity ? slot : slot - capacity;
  }
};

class Slots {
 public:
  /// `shared`: with processes that write records themselves.
  Slots(RecordLayout layout, std::uint64_t capacity, bool shared = false)
      : layout_(std::move(layout)),
        capacity_(capacity),
        memory_(make_memory(size_product(capacity, layout_.stride()), shared)),
        slots_(memory_->data()),
        stream_(streams(memory_->bytes())),
        lengths_(layout_.in_batches() ? capacity : 0) {}

  /// In memory that other processes have, too: `fd`, or new if that is -1.
  Slots(RecordLayout layout, std::uint64_t capacity, int fd)
      : layout_(std::move(layout)),
        capacity_(capacity),
        memory_(share(size_product(capacity, layout_.stride()), fd)),
        slots_(memory_->data()),
        stream_(streams(memory_->bytes())) {}

  /// The slots are part of other memory, or borrowed: then nothing is written.
  Slots(RecordLayout layout, const BorrowedSlots& borrowed)
      : layout_(std::move(layout)),
        capacity_(borrowed.slots),
        borrowed_(borrowed.memory),
        slots_(borrowed_->data()),
        stream_(nullptr) {}

  /// Returns the way to copy records into so large a window, if it is a special one.
  static RowCopy streams(std::size_t bytes) {
    return bytes >= kStreamInto ? streaming_copy() : nullptr;
  }

  static std::size_t bytes(const RecordLayout& layout, std::uint64_t capacity) {
    const std::size_t length = layout.in_batches() ? sizeof(std::uint64_t) : 0;
    return capacity * (layout.stride() + length);
  }

  const RecordLayout& layout() const { return layout_; }
  std::uint64_t capacity() const { return capacity_; }
  bool is_borrowed() const { return borrowed_ != nullptr; }
  const SharedMemory* shared_memory() const {
    return dynamic_cast<const SharedMemory*>(memory_.get());
  }

  /// Writes examples `from`, `from`+1, ... of `leaves` at `count` positions from
  /// `position` on; each is of `rows` examples if it is a whole batch.
  void write(std::uint64_t position, std::uint64_t count, const SourceLeaf* leaves,
             std::uint64_t from, std::size_t rows) {
    const RowCopy large = count * layout_.stride() >= kStreamPut ? stream_ : nullptr;
    std::uint64_t slot = position % capacity_;
    for (std::uint64_t i = 0; i < count; ++i) {
      write_record(layout_, slots_ + slot * layout_.stride(), leaves, from + i, rows,
                   large);
      if (!lengths_.empty()) lengths_[slot] = rows;
      if (++slot == capacity_) slot = 0;
    }
    if (large) finish_streaming();
  }

  /// The slots, seen from the one at `position` on.
  SlotView view(std::uint64_t position) const {
    return {slots_, capacity_, position % capacity_};
  }

  const std::byte* record(std::uint64_t slot) const {
    return slots_ + slot * layout_.stride();
  }
  /// Examples of the whole batch in a slot.
  std::size_t length(std::uint64_t slot) const { return lengths_[slot]; }

 private:
  static std::unique_ptr<Memory> make_memory(std::size_t bytes, bool shared) {
    if (shared) return std::make_unique<SharedMemory>(bytes);
    return std::make_unique<HostMemory>(bytes);
  }

  static std::unique_ptr<Memory> share(std::size_t bytes, int fd) {
    if (fd < 0) return std::make_unique<SharedMemory>(bytes);
    return std::make_unique<SharedMemory>(fd, bytes);
  }

  RecordLayout layout_;
  std::uint64_t capacity_;
  const std::unique_ptr<Memory> memory_;                // or
  const std::shared_ptr<const SharedMemory> borrowed_;  // one of them
  std::byte* const slots_;
  const RowCopy stream_;  // of large records, where the caches cannot hold the window
  std::vector<std::uint64_t> lengths_;  // of whole batches
};

}  // namespace echobuf
