// The rows of records that differ in length: where in the payload those of each slot
// lie, and how many they are.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/store/memory.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_window.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf {

/// Each field of a record begins at a multiple of kFieldAlignment, and each record with
/// a unit. Where records are whole batches, each field of each of their examples does:
/// those of one field lie one behind another.
class RowsTable {
 public:
  using Rows = SharedWindow::Rows;

  /// `unit`: a power of two. `examples`: of a record at most, if it is a whole batch;
  /// else 0.
  RowsTable(std::uint64_t capacity, std::uint64_t unit, std::vector<RaggedField> fields,
            std::uint64_t examples = 0)
      : unit_(unit),
        unit_shift_(std::countr_zero(unit)),
        fields_(std::move(fields)),
        own_(size_product(capacity, fields_.size())),
        rows_(own_.data()),
        most_examples_(examples),
        examples_(examples > 0 ? capacity : 0),
        rows_of_examples_(size_product(own_.size(), examples)) {}

  /// The table lies in memory that others see: `rows`.
  RowsTable(std::uint64_t unit, std::vector<RaggedField> fields, Rows* rows)
      : unit_(unit),
        unit_shift_(std::countr_zero(unit)),
        fields_(std::move(fields)),
        rows_(rows),
        most_examples_(0) {}
  RowsTable(const RowsTable&) = delete;
  RowsTable& operator=(const RowsTable&) = delete;

  static std::size_t bytes(std::uint64_t capacity, std::size_t fields,
                           std::uint64_t examples = 0) {
    const std::size_t batch = examples > 0 ? sizeof(std::uint64_t) : 0;
    return size_product(capacity,
                        size_product(fields * sizeof(Rows), examples + 1) + batch);
  }

  std::uint64_t unit() const { return unit_; }
  const std::vector<RaggedField>& fields() const { return fields_; }

  /// The units that example `index` of `leaves` takes; or that a whole batch does, of
  /// so many examples.
  std::uint64_t units_of(const SourceLeaf* leaves, std::uint64_t index,
                         std::uint64_t examples = 0) const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : fields_)
      for_each_run(leaves[field.field], index, examples,
                   [&](std::uint64_t, std::uint64_t count) {
                     bytes += round_up(count * field.row_bytes, kFieldAlignment);
                   });
    return (bytes + unit_ - 1) >> unit_shift_;
  }

  /// The units of `count` examples from `from` on; or of whole batches, of so many
  /// examples.
  void units_of(const SourceLeaf* leaves, std::uint64_t from, std::uint64_t count,
                std::uint64_t examples, std::uint64_t* units) const {
    if (in_batches()) {
      for (std::uint64_t i = 0; i < count; ++i)
        units[i] = units_of(leaves, from + i, examples);
      return;
    }
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
  /// payload on; or a whole batch of so many examples. `visit`: is told each run of
  /// rows, by the field, the offset, the run's first row in its leaf, and their number.
  template <class Visit>
  void place(std::uint64_t slot, std::uint64_t offset, const SourceLeaf* leaves,
             std::uint64_t index, std::uint64_t examples, const Visit& visit) {
    if (in_batches()) examples_[slot] = examples;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const RaggedField& field = fields_[f];
      const SourceLeaf& leaf = leaves[field.field];
      rows_[slot * fields_.size() + f] = {offset, leaf.rows_of(index)};
      Rows* example = in_batches() ? &rows_of_examples_[place(slot, f)] : nullptr;
      for_each_run(leaf, index, examples,
                   [&](std::uint64_t first, std::uint64_t count) {
                     visit(field, offset, first, count);
                     if (example) *example++ = {offset, count};
                     offset += round_up(count * field.row_bytes, kFieldAlignment);
                   });
    }
  }

  /// The same; `copy`: copies the bytes of a run to an offset.
  template <class Copy>
  void write(std::uint64_t slot, std::uint64_t offset, const SourceLeaf* leaves,
             std::uint64_t index, std::uint64_t examples, const Copy& copy) {
    place(slot, offset, leaves, index, examples,
          [&](const RaggedField& field, std::uint64_t to, std::uint64_t first,
              std::uint64_t count) {
            copy(to, leaves[field.field].data + first * field.row_bytes,
                 count * field.row_bytes);
          });
  }

  bool in_batches() const { return most_examples_ > 0; }
  /// Examples of the record in a slot: of a whole batch, any number.
  std::uint64_t examples_of(std::uint64_t slot) const {
    return in_batches() ? examples_[slot] : 1;
  }
  /// The rows of one of them.
  const Rows& example(std::uint64_t slot, std::size_t index,
                      std::uint64_t number) const {
    return in_batches() ? rows_of_examples_[place(slot, index) + number]
                        : rows(slot, index);
  }

  /// Rows of field `index` of fields() of the record in a slot; of a whole batch, where
  /// those of the first example lie, and how many all have.
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
    return (bytes + unit_ - 1) >> unit_shift_;
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
  /// Calls `run` with the first row of each example, and with how many it has.
  template <class Run>
  void for_each_run(const SourceLeaf& leaf, std::uint64_t index, std::uint64_t examples,
                    const Run& run) const {
    if (!in_batches()) {
      run(leaf.first_row_of(index), leaf.rows_of(index));
      return;
    }
    for (std::uint64_t i = 0; i < examples; ++i) {
      const auto first = static_cast<std::uint64_t>(leaf.batch_offsets[i]);
      run(first, static_cast<std::uint64_t>(leaf.batch_offsets[i + 1]) - first);
    }
  }

  std::size_t place(std::uint64_t slot, std::size_t index) const {
    return (slot * fields_.size() + index) * most_examples_;
  }

  const std::uint64_t unit_;
  const int unit_shift_;
  const std::vector<RaggedField> fields_;
  std::vector<Rows> own_;
  Rows* const rows_;
  // Where records are whole batches:
  const std::uint64_t most_examples_;
  std::vector<std::uint64_t> examples_;
  std::vector<Rows> rows_of_examples_;
};

}  // namespace echobuf
