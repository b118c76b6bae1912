// The window in host memory where records differ in length: slots for the fields of one
// size, and a ring of bytes for the rows of the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "echobuf/buffer/length_options.hpp"
#include "echobuf/draw/copy.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"

namespace echobuf {

/// The measure of a payload ring: its units, of how many bytes.
struct PayloadSize {
  std::uint64_t unit;
  std::uint64_t units;

  std::size_t bytes() const { return size_product(units, unit); }

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
  using Rows = RowsTable::Rows;

  /// `layout`: of the slots, where the fields of `lengths` have no bytes.
  PayloadStore(RecordLayout layout, std::uint64_t capacity, const PayloadSize& size,
               std::vector<RaggedField> fields)
      : slots_(std::move(layout), capacity),
        payload_(size.bytes()),
        stream_(HostStore::streams(payload_.bytes())),
        table_(capacity, size.unit, std::move(fields)) {
    for (const Field& field : slots_.layout().fields())
      has_fixed_ = has_fixed_ || field.bytes() > 0;
  }

  static std::size_t bytes(const RecordLayout& layout, std::uint64_t capacity,
                           std::size_t fields) {
    return HostStore::bytes(layout, capacity) + RowsTable::bytes(capacity, fields);
  }

  const RecordLayout& layout() const { return slots_.layout(); }
  const HostStore& slots() const { return slots_; }
  const std::vector<RaggedField>& fields() const { return table_.fields(); }
  std::uint64_t unit() const { return table_.unit(); }
  static constexpr bool is_borrowed() { return false; }
  static constexpr const SharedMemory* shared_memory() { return nullptr; }

  /// The units that example `index` of `leaves` takes.
  std::uint64_t units_of(const SourceLeaf* leaves, std::uint64_t index) const {
    return table_.units_of(leaves, index);
  }

  /// Those of `count` examples from `from` on.
  void units_of(const SourceLeaf* leaves, std::uint64_t from, std::uint64_t count,
                std::uint64_t* units) const {
    table_.units_of(leaves, from, count, units);
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
        payload_.bytes(),
        (wrap_from + largest_.load(std::memory_order_relaxed)) * unit());
  }

  /// Writes example `index` of `leaves`.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large) {
    if (has_fixed_) slots_.write(at.position, 1, leaves, index, 0);
    const auto copy = [&](std::uint64_t offset, const std::byte* from,
                          std::size_t bytes) {
      std::byte* const to = payload_.data() + offset;
      if (large && bytes >= kStreamRow)
        large(to, from, bytes);
      else
        detail::copy_field(to, from, bytes);
    };
    table_.write(at.slot, at.payload.unit * unit(), leaves, index, copy);
  }

  /// Returns the way to copy so many bytes in one put, if it is a special one.
  RowCopy streams(std::size_t bytes) const {
    return bytes >= kStreamPut ? stream_ : nullptr;
  }

  /// Rows of field `index` of fields() of the record in a slot.
  const Rows& rows(std::uint64_t slot, std::size_t index) const {
    return table_.rows(slot, index);
  }
  const std::byte* payload() const { return payload_.data(); }

  /// Bytes of the rows of the record in a slot.
  std::uint64_t bytes_of(std::uint64_t slot) const { return table_.bytes_of(slot); }
  std::uint64_t rows_of(std::uint64_t slot) const { return table_.rows_of(slot); }

 private:
  HostStore slots_;
  const HostMemory payload_;
  const RowCopy stream_;  // of large records, where the caches cannot hold the payload
  RowsTable table_;
  bool has_fixed_ = false;                 // slots have bytes
  std::atomic<std::uint64_t> largest_{0};  // units of a record
};

}  // namespace echobuf
