// The rows of records that differ in length: where in the payload those of each slot
// lie, and how many they are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/buffer/length_options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

/// Each field of a record begins at a multiple of kFieldAlignment, and each record with
/// a unit.
class RowsTable {
 public:
  /// The rows of one field of a record.
  struct Rows {
    std::uint64_t offset;  // in the payload, in bytes
    std::uint64_t count;
  };

  /// `unit`: a power of two.
  RowsTable(std::uint64_t capacity, std::uint64_t unit, std::vector<RaggedField> fields)
      : unit_(unit),
        unit_shift_(std::countr_zero(unit)),
        fields_(std::move(fields)),
        rows_(size_product(capacity, fields_.size())) {}

  static std::size_t bytes(std::uint64_t capacity, std::size_t fields) {
    return capacity * fields * sizeof(Rows);
  }

  std::uint64_t unit() const { return unit_; }
  const std::vector<RaggedField>& fields() const { return fields_; }

  /// The units that example `index` of `leaves` takes.
  std::uint64_t units_of(const SourceLeaf* leaves, std::uint64_t index) const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : fields_)
      bytes += round_up(leaves[field.field].rows_of(index) * field.row_bytes,
                        kFieldAlignment);
    return (bytes + unit_ - 1) >> unit_shift_;
  }

  /// The units of `count` examples from `from` on.
  void units_of(const SourceLeaf* leaves, std::uint64_t from, std::uint64_t count,
                std::uint64_t* units) const {
    std::fill_n(units, count, unit_ - 1);
    for (const RaggedField& field : fields_) {
      const SourceLeaf leaf = leaves[field.field];
      const std::size_t row_bytes = field.row_bytes;
      for (std::uint64_t i = 0; i < count; ++i)
        units[i] += round_up(leaf.rows_of(from + i) * row_bytes, kFieldAlignment);
    }
    for (std::uint64_t i = 0; i < count; ++i) units[i] >>= unit_shift_;
  }

  /// Notes example `index` of `leaves` in a slot, its rows from byte `offset` of the
  /// payload on. `copy`: copies the bytes of a field's rows to an offset.
  template <class Copy>
  void write(std::uint64_t slot, std::uint64_t offset, const SourceLeaf* leaves,
             std::uint64_t index, const Copy& copy) {
    Rows* rows = &rows_[slot * fields_.size()];
    for (const RaggedField& field : fields_) {
      const SourceLeaf& leaf = leaves[field.field];
      const std::uint64_t count = leaf.rows_of(index);
      const std::size_t bytes = count * field.row_bytes;
      copy(offset, leaf.data + leaf.first_row_of(index) * field.row_bytes, bytes);
      *rows++ = {offset, count};
      offset += round_up(bytes, kFieldAlignment);
    }
  }

  /// Rows of field `index` of fields() of the record in a slot.
  const Rows& rows(std::uint64_t slot, std::size_t index) const {
    return rows_[slot * fields_.size() + index];
  }

  /// The rows of the record in a slot, of all fields.
  std::uint64_t rows_of(std::uint64_t slot) const {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i) count += rows(slot, i).count;
    return count;
  }

  /// Bytes of the rows of the record in a slot.
  std::uint64_t bytes_of(std::uint64_t slot) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      bytes += rows(slot, i).count * fields_[i].row_bytes;
    return bytes;
  }

 private:
  const std::uint64_t unit_;
  const int unit_shift_;
  const std::vector<RaggedField> fields_;
  std::vector<Rows> rows_;
};

}  // namespace echobuf
