// The window in host memory: slots for the fields of one size and, where records have
// rows, a payload.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/payload.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/shared_window.hpp"
#include "echobuf/store/slots.hpp"

namespace echobuf {

class HostStore {
 public:
  /// Of records without rows. `shared`: with processes that write them themselves.
  HostStore(RecordLayout layout, std::uint64_t capacity, bool shared = false)
      : slots_(std::move(layout), capacity, shared) {}
  /// The same in memory that other processes have, too: `fd`, or new if that is -1.
  HostStore(RecordLayout layout, std::uint64_t capacity, int fd)
      : slots_(std::move(layout), capacity, fd) {}

  /// Of records with rows. `layout`: of the slots, where fields of rows have no bytes.
  /// `examples`: of a record at most, if it is a whole batch; else 0.
  HostStore(RecordLayout layout, std::uint64_t capacity, const PayloadSize& size,
            std::vector<RaggedField> fields, std::uint64_t examples = 0)
      : slots_(std::move(layout), capacity),
        payload_(
            std::make_unique<Payload>(capacity, size, std::move(fields), examples)) {}
  /// The same in memory that other processes read: `window` says where.
  HostStore(RecordLayout layout, const std::shared_ptr<const SharedMemory>& memory,
            const SharedWindow& window, std::vector<RaggedField> fields)
      : slots_(std::move(layout), {memory, window.slots, 0, nullptr}),
        payload_(std::make_unique<Payload>(memory, window, std::move(fields))),
        shared_(memory) {}

  /// All is borrowed: nothing is written. `most`: the most bytes of a record's rows.
  HostStore(RecordLayout layout, const BorrowedSlots& borrowed,
            const LengthOptions& lengths, std::uint64_t most)
      : slots_(std::move(layout), borrowed),
        payload_(lengths.any() ? std::make_unique<Payload>(borrowed, lengths, most)
                               : nullptr),
        shared_(borrowed.memory),
        is_borrowed_(true) {}

  /// Bytes of `capacity` records, without those of their rows.
  static std::size_t bytes(const RecordLayout& layout, std::uint64_t capacity,
                           std::size_t fields = 0, std::uint64_t examples = 0) {
    const std::size_t table =
        fields > 0 ? RowsTable::bytes(capacity, fields, examples) : 0;
    return Slots::bytes(layout, capacity) + table;
  }

  const RecordLayout& layout() const { return slots_.layout(); }
  const Slots& slots() const { return slots_; }
  /// Null: records have no rows.
  const Payload* payload() const { return payload_.get(); }
  /// Where the rows of each record are; null: records have none.
  const RowsTable* table() const { return payload_ ? &payload_->table() : nullptr; }
  bool is_borrowed() const { return is_borrowed_; }
  const SharedMemory* shared_memory() const {
    return shared_ ? shared_.get() : slots_.shared_memory();
  }

  /// See Slots: of records without rows.
  void write(std::uint64_t position, std::uint64_t count, const SourceLeaf* leaves,
             std::uint64_t from, std::size_t rows) {
    slots_.write(position, count, leaves, from, rows);
  }

  /// Writes example `index` of `leaves`, which has rows; or a whole batch, of so many
  /// examples.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples = 0) {
    if (has_fixed_) slots_.write(at.position, 1, leaves, index, examples);
    payload_->write(at, leaves, index, large, examples);
  }
  void note_largest(std::uint64_t units) { payload_->note_largest(units); }
  /// Returns the way to copy so many bytes of rows in one put, if it is a special one.
  RowCopy streams(std::size_t bytes) const { return payload_->streams(bytes); }

  /// Another process writes at these positions, or has written rows: see Payload.
  Misfit note_writes(std::uint64_t first, std::uint64_t count) {
    return payload_ ? payload_->note_writes(first, count, slots_.capacity()) : Misfit{};
  }

 private:
  Slots slots_;
  const std::unique_ptr<Payload> payload_;  // null: records have no rows
  const std::shared_ptr<const SharedMemory> shared_;
  const bool is_borrowed_ = false;
  const bool has_fixed_ =  // slots have bytes to be written
      std::any_of(layout().fields().begin(), layout().fields().end(),
                  [](const Field& field) { return field.bytes() > 0; });
};

}  // namespace echobuf
