// The window in host memory: slots that producers write into and draws read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_memory.hpp"

namespace echobuf {

/// The rows of one leaf of what is put: contiguous each, `stride` bytes apart.
struct SourceLeaf {
  const std::byte* data;
  std::ptrdiff_t stride;
  std::size_t bytes = 0;  // of one example, which a put then checks; 0: not known
  // Of a field of any number of rows: example i has those from offsets[i] to
  // offsets[i + 1], or `rows` of them, if it is the only one.
  const std::int64_t* offsets = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t most_rows = ~std::uint64_t{0};  // longer examples are cut to so many
  // Of a whole batch of `rows` rows, the only record put: its example i has those from
  // batch_offsets[i] to batch_offsets[i + 1].
  const std::int64_t* batch_offsets = nullptr;

  /// `values` of the first example; each has `per_example` of them, and the next one's
  /// follow.
  template <class T>
  static SourceLeaf of(const T* values, std::size_t per_example = 1) {
    static_assert(std::is_trivially_copyable_v<T>, "records are copied as bytes");
    const std::size_t bytes = per_example * sizeof(T);
    return {reinterpret_cast<const std::byte*>(values),
            static_cast<std::ptrdiff_t>(bytes), bytes};
  }

  /// One example of `rows` rows, of `per_row` values each, in a field of any number.
  template <class T>
  static SourceLeaf of_rows(const T* values, std::uint64_t rows,
                            std::size_t per_row = 1) {
    SourceLeaf leaf = of(values, per_row);
    leaf.bytes = 0;
    leaf.rows = rows;
    return leaf;
  }
  /// Several, whose rows lie one behind another: see `offsets`.
  template <class T>
  static SourceLeaf of_offsets(const T* values, const std::int64_t* offsets,
                               std::size_t per_row = 1) {
    SourceLeaf leaf = of_rows(values, 0, per_row);
    leaf.offsets = offsets;
    return leaf;
  }

  /// A whole batch of so many examples.
  template <class T>
  static SourceLeaf of_batch(const T* values, const std::int64_t* offsets,
                             std::uint64_t examples, std::size_t per_row = 1) {
    SourceLeaf leaf =
        of_rows(values, static_cast<std::uint64_t>(offsets[examples]), per_row);
    leaf.batch_offsets = offsets;
    return leaf;
  }

  std::uint64_t rows_of(std::uint64_t example) const {
    const std::uint64_t all =
        offsets ? static_cast<std::uint64_t>(offsets[example + 1] - offsets[example])
                : rows;
    return all < most_rows ? all : most_rows;
  }
  std::uint64_t first_row_of(std::uint64_t example) const {
    return offsets ? static_cast<std::uint64_t>(offsets[example]) : 0;
  }
};

/// Writes example `index` of `leaves` into a slot; of a ragged record `rows` rows.
/// `large`: how large fields are copied, if not like others.
inline void write_record(const RecordLayout& layout, std::byte* slot,
                         const SourceLeaf* leaves, std::uint64_t index,
                         std::size_t rows, RowCopy large) {
  for (std::size_t f = 0; f < layout.fields().size(); ++f) {
    const Field& field = layout.fields()[f];
    const std::byte* row =
        leaves[f].data + static_cast<std::ptrdiff_t>(index) * leaves[f].stride;
    const std::size_t bytes = layout.ragged() ? rows * field.row_bytes : field.bytes();
    if (large && bytes >= kStreamRow)
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

class HostStore {
 public:
  /// `shared`: with processes that write records themselves.
  HostStore(RecordLayout layout, std::uint64_t capacity, bool shared = false)
      : layout_(std::move(layout)),
        capacity_(capacity),
        memory_(make_memory(size_product(capacity, layout_.stride()), shared)),
        slots_(memory_->data()),
        stream_(streams(memory_->bytes())),
        lengths_(layout_.ragged() ? capacity : 0) {}

  /// In memory that other processes have, too: `fd`, or new if that is -1.
  HostStore(RecordLayout layout, std::uint64_t capacity, int fd)
      : layout_(std::move(layout)),
        capacity_(capacity),
        memory_(share(size_product(capacity, layout_.stride()), fd)),
        slots_(memory_->data()),
        stream_(streams(memory_->bytes())) {}

  /// The slots are part of other memory, or borrowed: then nothing is written.
  HostStore(RecordLayout layout, const BorrowedSlots& borrowed)
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
    return capacity * (layout.stride() + (layout.ragged() ? sizeof(std::uint64_t) : 0));
  }

  const RecordLayout& layout() const { return layout_; }
  std::uint64_t capacity() const { return capacity_; }
  bool is_borrowed() const { return borrowed_ != nullptr; }
  const SharedMemory* shared_memory() const {
    return dynamic_cast<const SharedMemory*>(memory_.get());
  }

  /// Writes examples `from`, `from`+1, ... of `leaves` at `count` positions from
  /// `position` on; each has `rows` rows if records are ragged.
  void write(std::uint64_t position, std::uint64_t count, const SourceLeaf* leaves,
             std::uint64_t from, std::size_t rows) {
    const RowCopy large = count * layout_.stride() >= kStreamPut ? stream_ : nullptr;
    std::uint64_t slot = position % capacity_;
    for (std::uint64_t i = 0; i < count; ++i) {
      write_record(layout_, slots_ + slot * layout_.stride(), leaves, from + i, rows,
                   large);
      if (layout_.ragged()) lengths_[slot] = rows;
      if (++slot == capacity_) slot = 0;
    }
    if (large) finish_streaming();
  }

  /// Notes that another process writes at these positions: nothing to do here.
  void note_writes(std::uint64_t, std::uint64_t) const {}

  /// The slots, seen from the one at `position` on.
  SlotView view(std::uint64_t position) const {
    return {slots_, capacity_, position % capacity_};
  }

  const std::byte* record(std::uint64_t slot) const {
    return slots_ + slot * layout_.stride();
  }
  /// Rows of the ragged record of a slot.
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
  std::vector<std::uint64_t> lengths_;
};

}  // namespace echobuf
