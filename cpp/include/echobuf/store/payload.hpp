// The rows of a window's records in host memory: a ring of bytes beside the slots.
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
#include "echobuf/store/claims.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/shared_window.hpp"
#include "echobuf/store/slots.hpp"

namespace echobuf {

/// Where a record is written: its position and its slot, and its place of the payload.
struct RecordPlace {
  std::uint64_t position;
  std::uint64_t slot;
  Claims::Cursor payload;
};

class Payload {
 public:
  using Rows = SharedWindow::Rows;

  /// `examples`: of a record at most, if it is a whole batch; else 0.
  Payload(std::uint64_t capacity, const PayloadSize& size,
          std::vector<RaggedField> fields, std::uint64_t examples)
      : own_(std::make_unique<HostMemory>(size.bytes())),
        data_(own_->data()),
        bytes_(size.bytes()),
        stream_(Slots::streams(size.bytes())),
        table_(capacity, size.unit, std::move(fields), examples) {}

  /// In memory that other processes read: `window` says where.
  Payload(std::shared_ptr<const SharedMemory> memory, const SharedWindow& window,
          std::vector<RaggedField> fields)
      : shared_(std::move(memory)),
        data_(shared_->data() + window.payload_at()),
        bytes_(window.payload_bytes()),
        stream_(Slots::streams(bytes_)),
        table_(window.unit, std::move(fields), at<Rows>(window.rows_at())),
        ends_(at<std::uint64_t>(window.ends_at())) {}

  /// Slots and payload are borrowed: nothing is written. `most`: the most bytes of a
  /// record.
  Payload(const BorrowedSlots& borrowed, const LengthOptions& lengths,
          std::uint64_t most)
      : shared_(borrowed.memory),
        data_(shared_->data() + borrowed.window.payload_at()),
        bytes_(borrowed.window.payload_bytes()),
        stream_(nullptr),
        table_(borrowed.slots, borrowed.window.unit, lengths.fields),
        owner_(borrowed.slot_owner),
        theirs_(at<const Rows>(borrowed.window.rows_at())),
        most_(most),
        same_lengths_(lengths.packs()) {}

  const std::byte* data() const { return data_; }
  const RowsTable& table() const { return table_; }

  /// Notes that records of up to so many units are put.
  void note_largest(std::uint64_t units) {
    // Relaxed: of used_bytes(), a statistic.
    std::uint64_t seen = largest_.load(std::memory_order_relaxed);
    while (units > seen &&
           !largest_.compare_exchange_weak(seen, units, std::memory_order_relaxed))
      continue;
  }
  /// The bytes that records come to: of those noted, none begins at unit `wrap_from` or
  /// behind it.
  std::size_t used_bytes(std::uint64_t wrap_from) const {
    return std::min<std::size_t>(
        bytes_, (wrap_from + largest_.load(std::memory_order_relaxed)) * table_.unit());
  }

  /// Writes the rows of example `index` of `leaves`; or of a whole batch, of so many
  /// examples.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples) {
    const auto copy = [&](std::uint64_t offset, const std::byte* from,
                          std::size_t bytes) {
      std::byte* const to = data_ + offset;
      if (large && bytes >= kStreamRow)
        large(to, from, bytes);
      else
        detail::copy_field(to, from, bytes);
    };
    table_.write(at.slot, at.payload.unit * table_.unit(), leaves, index, examples,
                 copy);
    if (ends_)
      ends_[at.slot] = at.payload.place + table_.units_of(leaves, index, examples);
  }

  /// Another process has written the borrowed records at these positions. Notes a copy
  /// of where their rows lie: the owner may use their slots again while they are drawn,
  /// if it gives this process up, and then the draw must still end, for nothing.
  /// Returns the first record that cannot be drawn; it counts as one of no rows.
  Misfit note_writes(std::uint64_t first, std::uint64_t count, std::uint64_t capacity) {
    Misfit misfit;
    const std::size_t each = table_.fields().size();
    for (std::uint64_t position = first; position < first + count; ++position) {
      const std::uint64_t slot = position % capacity;
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

  /// In shared memory: where in the payload the record in a slot ends.
  std::uint64_t end_of(std::uint64_t slot) const { return ends_[slot]; }

 private:
  /// What others see at an offset of the shared memory.
  template <class T>
  T* at(std::size_t offset) const {
    return std::launder(reinterpret_cast<T*>(shared_->data() + offset));
  }

  /// False for what lies outside of the payload, as it is being written.
  bool is_within(const Rows* rows) const {
    const std::vector<RaggedField>& fields = table_.fields();
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (rows[i].offset > bytes_ ||
          rows[i].count > (bytes_ - rows[i].offset) / fields[i].row_bytes)
        return false;
    return true;
  }

  Misfit check(std::uint64_t slot) const {
    const std::vector<RaggedField>& fields = table_.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::uint64_t count = table_.rows(slot, i).count;
      const std::uint64_t most = fields[i].max_length;
      if (most > 0 && count > most) return {Misfit::kLength, count};
      if (same_lengths_ && count != table_.rows(slot, 0).count)
        return {Misfit::kUnequal, count};
    }
    const std::uint64_t bytes = table_.bytes_of(slot);
    if (bytes > most_) return {Misfit::kShare, bytes};
    return {};
  }

  const std::unique_ptr<HostMemory> own_;             // or
  const std::shared_ptr<const SharedMemory> shared_;  // of all
  std::byte* const data_;
  const std::size_t bytes_;
  const RowCopy stream_;  // of large records, where the caches cannot hold the payload
  RowsTable table_;
  std::uint64_t* const ends_ = nullptr;  // where in the payload each record ends, for
                                         // others
  const std::shared_ptr<SlotOwner> owner_;  // of slots that are borrowed
  const Rows* const theirs_ = nullptr;      // and its table
  const std::uint64_t most_ = 0;
  const bool same_lengths_ = false;
  std::atomic<std::uint64_t> largest_{0};  // units of a record
};

}  // namespace echobuf
