// The window in host memory where records differ in length: slots for the fields of one
// size, and a ring of bytes for the rows of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/buffer/length_options.hpp"
#include "echobuf/draw/copy.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/record.hpp"

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

class PayloadStore {
 public:
  /// The rows of one field of a record.
  struct Rows {
    std::uint64_t offset;  // in the payload, in bytes
    std::uint64_t count;
  };

  /// `layout`: of the slots, where the fields of `lengths` have no bytes.
  PayloadStore(RecordLayout layout, std::uint64_t capacity, const PayloadSize& size,
               std::vector<RaggedField> fields)
      : slots_(std::move(layout), capacity),
        capacity_(capacity),
        unit_(size.unit),
        fields_(std::move(fields)),
        payload_(size.bytes()),
        stream_(HostStore::streams(payload_.bytes())),
        rows_(size_product(capacity, fields_.size())) {}

  static std::size_t bytes(const RecordLayout& layout, std::uint64_t capacity,
                           std::size_t fields) {
    return HostStore::bytes(layout, capacity) + capacity * fields * sizeof(Rows);
  }

  const RecordLayout& layout() const { return slots_.layout(); }
  const HostStore& slots() const { return slots_; }
  const std::vector<RaggedField>& fields() const { return fields_; }
  std::uint64_t unit() const { return unit_; }
  static constexpr bool is_borrowed() { return false; }
  static constexpr const SharedMemory* shared_memory() { return nullptr; }

  /// The units that example `index` of `leaves` takes.
  std::uint64_t units_of(const SourceLeaf* leaves, std::uint64_t index) const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : fields_)
      bytes += round_up(leaves[field.field].rows_of(index) * field.row_bytes,
                        kFieldAlignment);
    return (bytes + unit_ - 1) / unit_;
  }

  /// Writes example `index` of `leaves` at `position`, its rows at `place` of the
  /// payload.
  void write(std::uint64_t position, std::uint64_t place, const PayloadClaims& claims,
             const SourceLeaf* leaves, std::uint64_t index, RowCopy large) {
    slots_.write(position, 1, leaves, index, 0);
    std::uint64_t offset = place % claims.units() * unit_;
    Rows* rows = &rows_[position % capacity_ * fields_.size()];
    for (const RaggedField& field : fields_) {
      const SourceLeaf& leaf = leaves[field.field];
      const std::uint64_t count = leaf.rows_of(index);
      const std::size_t bytes = count * field.row_bytes;
      const std::byte* from = leaf.data + leaf.first_row_of(index) * field.row_bytes;
      std::byte* const to = payload_.data() + offset;
      if (large && bytes >= kStreamRow)
        large(to, from, bytes);
      else if (bytes > 0)
        std::memcpy(to, from, bytes);
      *rows++ = {offset, count};
      offset += round_up(bytes, kFieldAlignment);
    }
  }

  /// Returns the way to copy so many bytes in one put, if it is a special one.
  RowCopy streams(std::size_t bytes) const {
    return bytes >= kStreamPut ? stream_ : nullptr;
  }

  /// Rows of field `index` of fields() of the record in a slot.
  const Rows& rows(std::uint64_t slot, std::size_t index) const {
    return rows_[slot * fields_.size() + index];
  }
  const std::byte* payload() const { return payload_.data(); }

  /// Bytes of the rows of the record in a slot.
  std::uint64_t bytes_of(std::uint64_t slot) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      bytes += rows(slot, i).count * fields_[i].row_bytes;
    return bytes;
  }

 private:
  HostStore slots_;
  const std::uint64_t capacity_;
  const std::uint64_t unit_;
  const std::vector<RaggedField> fields_;
  const HostMemory payload_;
  const RowCopy stream_;  // of large records, where the caches cannot hold the payload
  std::vector<Rows> rows_;
};

}  // namespace echobuf
