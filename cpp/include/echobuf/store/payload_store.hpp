// The window in host memory where records differ in length: slots for the fields of one
// size, and a ring of bytes for the rows of the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/shared_window.hpp"

namespace echobuf {

/// The measure of a payload ring: its units, of how many bytes.
struct PayloadSize {
  std::uint64_t unit;
  std::uint64_t units;

  std::size_t bytes() const { return size_product(units, unit); }

  /// The ring of `records` that have `bytes` together, each of them `most` at most: it
  /// has room, besides, for the record that shows that there is no more, and for what
  /// one leaves free that does not wrap around. `fields`: of a record; `edge`: is set
  /// to the bytes of a record at most that are no rows.
  static PayloadSize around(std::uint64_t bytes, std::uint64_t most,
                            std::uint64_t records, std::size_t fields,
                            std::uint64_t& edge) {
    // Each field of a record begins at a multiple of 16 bytes, and each record with a
    // unit.
    const std::uint64_t padding = kFieldAlignment * fields;
    PayloadSize size{0, 0};
    std::uint64_t unit = 0;
    do {
      unit = size.unit;
      edge = padding + (unit > kFieldAlignment ? unit : 0);
      size = of(bytes + 2 * (most + edge) + size_product(records, edge));
    } while (size.unit != unit);
    return size;
  }

  /// Units of at least kFieldAlignment bytes, as many as claims can count. Throws
  /// std::bad_alloc where that is more than any memory.
  static PayloadSize of(std::uint64_t bytes) {
    std::uint64_t unit = kFieldAlignment;
    if (bytes > LengthOptions::kMostBytes) throw std::bad_alloc();
    while (bytes / unit >= PayloadClaims::kMostUnits) unit *= 2;
    return {unit, bytes / unit + 1};
  }
};

/// Where a record is written: its position and its slot, and its place of the payload.
struct RecordPlace {
  std::uint64_t position;
  std::uint64_t slot;
  PayloadClaims::Cursor payload;
};

class PayloadStore {
 public:
  using Rows = SharedWindow::Rows;

  /// `layout`: of the slots, where the fields of `lengths` have no bytes. `examples`:
  /// of a record at most, if it is a whole batch; else 0.
  PayloadStore(RecordLayout layout, std::uint64_t capacity, const PayloadSize& size,
               std::vector<RaggedField> fields, std::uint64_t examples = 0)
      : slots_(std::move(layout), capacity),
        own_(std::make_unique<HostMemory>(size.bytes())),
        payload_(own_->data()),
        payload_bytes_(size.bytes()),
        stream_(HostStore::streams(size.bytes())),
        table_(capacity, size.unit, std::move(fields), examples),
        has_fixed_(has_fixed(slots_.layout())) {}

  /// In memory that other processes read: `window` says where.
  PayloadStore(RecordLayout layout, std::shared_ptr<const SharedMemory> memory,
               const SharedWindow& window, std::vector<RaggedField> fields)
      : slots_(std::move(layout), BorrowedSlots{memory, window.slots, 0, nullptr}),
        shared_(std::move(memory)),
        payload_(shared_->data() + window.payload_at()),
        payload_bytes_(window.payload_bytes()),
        stream_(HostStore::streams(payload_bytes_)),
        table_(
            window.unit, std::move(fields),
            std::launder(reinterpret_cast<Rows*>(shared_->data() + window.rows_at()))),
        has_fixed_(has_fixed(slots_.layout())),
        ends_(std::launder(
            reinterpret_cast<std::uint64_t*>(shared_->data() + window.ends_at()))) {}

  /// Slots and payload are borrowed: nothing is written. `most`: the most bytes of a
  /// record.
  PayloadStore(RecordLayout layout, const BorrowedSlots& borrowed,
               const LengthOptions& lengths, std::uint64_t most)
      : slots_(std::move(layout), borrowed),
        shared_(borrowed.memory),
        payload_(shared_->data() + borrowed.window.payload_at()),
        payload_bytes_(borrowed.window.payload_bytes()),
        stream_(nullptr),
        table_(borrowed.slots, borrowed.window.unit, lengths.fields),
        owner_(borrowed.slot_owner),
        theirs_(std::launder(reinterpret_cast<const Rows*>(shared_->data() +
                                                           borrowed.window.rows_at()))),
        most_(most),
        same_lengths_(lengths.pack_to > 0) {}

  static std::size_t bytes(const RecordLayout& layout, std::uint64_t capacity,
                           std::size_t fields, std::uint64_t examples = 0) {
    return HostStore::bytes(layout, capacity) +
           RowsTable::bytes(capacity, fields, examples);
  }

  const RecordLayout& layout() const { return slots_.layout(); }
  const HostStore& slots() const { return slots_; }
  const std::vector<RaggedField>& fields() const { return table_.fields(); }
  std::uint64_t unit() const { return table_.unit(); }
  bool is_borrowed() const { return theirs_ != nullptr; }
  const SharedMemory* shared_memory() const { return shared_.get(); }

  /// The units that example `index` of `leaves` takes; see RowsTable.
  std::uint64_t units_of(const SourceLeaf* leaves, std::uint64_t index,
                         std::uint64_t examples = 0) const {
    return table_.units_of(leaves, index, examples);
  }

  /// Those of `count` examples from `from` on, or of one whole batch.
  void units_of(const SourceLeaf* leaves, std::uint64_t from, std::uint64_t count,
                std::uint64_t examples, std::uint64_t* units) const {
    table_.units_of(leaves, from, count, examples, units);
  }

  /// Notes that records of up to so many units are put.
  void note_largest(std::uint64_t units) {
    // Relaxed: of bytes(), a statistic.
    std::uint64_t seen = largest_.load(std::memory_order_relaxed);
    while (units > seen &&
           !largest_.compare_exchange_weak(seen, units, std::memory_order_relaxed))
      continue;
  }
  /// The bytes of the payload that records come to: of those noted, none begins at unit
  /// `wrap_from` or behind it.
  std::size_t payload_bytes(std::uint64_t wrap_from) const {
    return std::min<std::size_t>(
        payload_bytes_,
        (wrap_from + largest_.load(std::memory_order_relaxed)) * unit());
  }

  /// Writes example `index` of `leaves`; or a whole batch, of so many examples.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples = 0) {
    if (has_fixed_) slots_.write(at.position, 1, leaves, index, examples);
    const auto copy = [&](std::uint64_t offset, const std::byte* from,
                          std::size_t bytes) {
      std::byte* const to = payload_ + offset;
      if (large && bytes >= kStreamRow)
        large(to, from, bytes);
      else
        detail::copy_field(to, from, bytes);
    };
    table_.write(at.slot, at.payload.unit * unit(), leaves, index, examples, copy);
    if (ends_)
      ends_[at.slot] = at.payload.place + table_.units_of(leaves, index, examples);
  }

  /// Another process has written the borrowed records at these positions. Notes a copy
  /// of where their rows lie: the owner may use their slots again while they are drawn,
  /// if it gives this process up, and then the draw must still end, for nothing.
  /// Returns the first record that cannot be drawn; it counts as one of no rows.
  Misfit note_writes(std::uint64_t first, std::uint64_t count) {
    Misfit misfit;
    const std::size_t each = fields().size();
    for (std::uint64_t position = first; position < first + count; ++position) {
      const std::uint64_t slot = position % slots_.capacity();
      Rows* const own = table_.rows(slot);
      std::copy_n(theirs_ + slot * each, each, own);
      const bool within = is_within(own);
      const Misfit one = within ? check(slot) : Misfit{};
      if (!within || one.kind != Misfit::kNone) std::fill_n(own, each, Rows{0, 0});
      if (misfit.kind == Misfit::kNone) misfit = one;
    }
    return owner_->is_held() ? misfit : Misfit{};  // else it was no whole record
  }

  /// Returns the way to copy so many bytes in one put, if it is a special one.
  RowCopy streams(std::size_t bytes) const {
    return bytes >= kStreamPut ? stream_ : nullptr;
  }

  /// Rows of field `index` of fields() of the record in a slot.
  const Rows& rows(std::uint64_t slot, std::size_t index) const {
    return table_.rows(slot, index);
  }
  /// See RowsTable.
  std::uint64_t examples_of(std::uint64_t slot) const {
    return table_.examples_of(slot);
  }
  const Rows& example(std::uint64_t slot, std::size_t index,
                      std::uint64_t number) const {
    return table_.example(slot, index, number);
  }
  bool in_batches() const { return table_.in_batches(); }
  const std::byte* payload() const { return payload_; }

  /// Bytes of the rows of the record in a slot.
  std::uint64_t bytes_of(std::uint64_t slot) const { return table_.bytes_of(slot); }
  std::uint64_t rows_of(std::uint64_t slot) const { return table_.rows_of(slot); }

  /// In shared memory: where in the payload the record in a slot ends, and the units
  /// that it takes.
  std::uint64_t end_of(std::uint64_t slot) const { return ends_[slot]; }
  std::uint64_t units_in(std::uint64_t slot) const { return table_.units_in(slot); }

 private:
  static bool has_fixed(const RecordLayout& layout) {
    return std::any_of(layout.fields().begin(), layout.fields().end(),
                       [](const Field& field) { return field.bytes() > 0; });
  }

  /// False for what lies outside of the payload, as it is being written.
  bool is_within(const Rows* rows) const {
    for (std::size_t i = 0; i < fields().size(); ++i)
      if (rows[i].offset > payload_bytes_ ||
          rows[i].count > (payload_bytes_ - rows[i].offset) / fields()[i].row_bytes)
        return false;
    return true;
  }

  Misfit check(std::uint64_t slot) const {
    for (std::size_t i = 0; i < fields().size(); ++i) {
      const std::uint64_t count = rows(slot, i).count;
      const std::uint64_t most = fields()[i].max_length;
      if (most > 0 && count > most) return {Misfit::kLength, count};
      if (same_lengths_ && count != rows(slot, 0).count)
        return {Misfit::kUnequal, count};
    }
    const std::uint64_t bytes = table_.bytes_of(slot);
    if (bytes > most_) return {Misfit::kShare, bytes};
    return {};
  }

  HostStore slots_;
  const std::unique_ptr<HostMemory> own_;             // of the payload, or
  const std::shared_ptr<const SharedMemory> shared_;  // of all
  std::byte* const payload_;
  const std::size_t payload_bytes_;
  const RowCopy stream_;  // of large records, where the caches cannot hold the payload
  RowsTable table_;
  const bool has_fixed_ = false;         // slots have bytes to be written
  std::uint64_t* const ends_ = nullptr;  // where in the payload each record ends, for
                                         // others
  const std::shared_ptr<SlotOwner> owner_;  // of slots that are borrowed
  const Rows* const theirs_ = nullptr;      // and its table
  const std::uint64_t most_ = 0;
  const bool same_lengths_ = false;
  std::atomic<std::uint64_t> largest_{0};  // units of a record
};

}  // namespace echobuf
