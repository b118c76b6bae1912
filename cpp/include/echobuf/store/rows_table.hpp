// The rows of records that differ in length: where in the payload those of each slot
// lie, and how many they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/buffer/length_options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_window.hpp"

namespace echobuf {

/// Each field of a record begins at a multiple of kFieldAlignment, and each record with
/// a unit.
class RowsTable {
 public:
  using Rows = SharedWindow::Rows;

  RowsTable(std::uint64_t capacity, std::uint64_t unit, std::vector<RaggedField> fields)
      : capacity_(capacity),
        unit_(unit),
        fields_(std::move(fields)),
        own_(size_product(capacity, fields_.size())),
        rows_(own_.data()) {}

  /// The table lies in memory that others see: `rows`.
  RowsTable(std::uint64_t capacity, std::uint64_t unit, std::vector<RaggedField> fields,
            Rows* rows)
      : capacity_(capacity), unit_(unit), fields_(std::move(fields)), rows_(rows) {}
  RowsTable(const RowsTable&) = delete;
  RowsTable& operator=(const RowsTable&) = delete;

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
    return (bytes + unit_ - 1) / unit_;
  }

  /// Notes example `index` of `leaves` at `position`, its rows from byte `offset` of
  /// the payload on. `copy`: copies the bytes of a field's rows to an offset.
  template <class Copy>
  void write(std::uint64_t position, std::uint64_t offset, const SourceLeaf* leaves,
             std::uint64_t index, const Copy& copy) {
    Rows* rows = &rows_[position % capacity_ * fields_.size()];
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

  /// Those of all fields.
  Rows* rows(std::uint64_t slot) { return &rows_[slot * fields_.size()]; }

  /// The units that the record in a slot takes.
  std::uint64_t units_in(std::uint64_t slot) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i)
      bytes += round_up(rows(slot, i).count * fields_[i].row_bytes, kFieldAlignment);
    return (bytes + unit_ - 1) / unit_;
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
  const std::uint64_t capacity_;
  const std::uint64_t unit_;
  const std::vector<RaggedField> fields_;
  std::vector<Rows> own_;
  Rows* const rows_;
};

}  // namespace echobuf
