// Checks of the rows of examples that are put: that there are no more than fit, and
// that their offsets are offsets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "echobuf/buffer/argument_checks.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf {

class RowsChecks {
 public:
  /// `table`: of records with rows, of at most `most_bytes` of them; null: they have
  /// none.
  RowsChecks(const RowsTable* table, std::uint64_t most_bytes)
      : table_(table), most_bytes_(most_bytes) {
    if (!table) return;
    for (const RaggedField& field : table->fields())
      fitting_rows_.push_back(most_bytes / field.row_bytes);
  }

  std::uint64_t most_bytes() const { return most_bytes_; }

  /// Throws std::invalid_argument for examples that are larger than a segment's share
  /// of the payload, or than `max_length` says; and for whole batches, of so many
  /// examples each, if there are several.
  void check(const SourceLeaf* leaves, std::uint64_t n, std::uint64_t examples) const {
    const std::vector<RaggedField>& fields = table_->fields();
    if (table_->in_batches()) {
      check_batches(leaves, n, examples);
    } else if (fields.size() > 1 || !are_fine(leaves[fields[0].field], fields[0], n)) {
      for (std::uint64_t i = 0; i < n; ++i) {
        for (const RaggedField& field : fields) {
          check_rows(leaves[field.field], field, i);
          check_length(leaves[field.field].rows_of(i), field, i);
        }
        check_bytes(leaves, i);
      }
    }
  }

 private:
  /// Returns whether examples of one field are fine: without a branch for each.
  bool are_fine(const SourceLeaf& leaf, const RaggedField& field,
                std::uint64_t n) const {
    if (leaf.data == nullptr || !leaf.offsets) return false;
    const std::int64_t* offsets = leaf.offsets;
    const std::uint64_t most = field.max_length > 0
                                   ? std::min(field.max_length, fitting_rows_[0])
                                   : fitting_rows_[0];
    bool fine = n == 0 || offsets[0] >= 0;
    for (std::uint64_t i = 0; i < n; ++i)
      fine &= offsets[i + 1] >= offsets[i] && leaf.rows_of(i) <= most;
    return fine;
  }

  void check_batches(const SourceLeaf* leaves, std::uint64_t n,
                     std::uint64_t examples) const {
    if (n > 1)
      argument_checks::refuse("put", "there are " + std::to_string(n) +
                                         " whole batches; put them one by one");
    for (std::uint64_t i = 0; i < n; ++i) {
      for (const RaggedField& field : table_->fields()) {
        check_rows(leaves[field.field], field, i);
        check_batch(leaves[field.field], field, examples);
      }
      check_bytes(leaves, i);
    }
  }

  void check_bytes(const SourceLeaf* leaves, std::uint64_t i) const {
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < fitting_rows_.size(); ++f) {
      const RaggedField& field = table_->fields()[f];
      // More rows than fit are as many bytes that do not: a product could overflow.
      bytes += std::min(leaves[field.field].rows_of(i), fitting_rows_[f] + 1) *
               field.row_bytes;
    }
    if (bytes > most_bytes_)
      argument_checks::refuse(
          "put", "example " + std::to_string(i) + " has " + std::to_string(bytes) +
                     " bytes or more, but a segment\'s share of `payload_bytes` is " +
                     std::to_string(most_bytes_));
  }

  static void check_length(std::uint64_t rows, const RaggedField& field,
                           std::uint64_t i) {
    if (field.max_length > 0 && rows > field.max_length)
      argument_checks::refuse("put", "example " + std::to_string(i) + " has " +
                                         std::to_string(rows) + " rows, but " +
                                         "`max_length` is " +
                                         std::to_string(field.max_length));
  }

  /// Refuses a batch whose offsets are not those of its rows. check_leaves() has looked
  /// at the number of its examples.
  static void check_batch(const SourceLeaf& leaf, const RaggedField& field,
                          std::uint64_t examples) {
    const std::int64_t* const offsets = leaf.batch_offsets;
    const auto name = [&] { return "leaf " + std::to_string(field.field); };
    if (offsets == nullptr || leaf.offsets != nullptr)
      argument_checks::refuse("put", name() + " is no whole batch, as of_batch() is");
    if (offsets[0] != 0 || static_cast<std::uint64_t>(offsets[examples]) != leaf.rows)
      argument_checks::refuse(
          "put", name() + " has `batch_offsets` from " + std::to_string(offsets[0]) +
                     " to " + std::to_string(offsets[examples]) +
                     "; they begin at 0 and end at its number of rows, " +
                     std::to_string(leaf.rows));
    for (std::uint64_t i = 0; i < examples; ++i) {
      if (offsets[i + 1] < offsets[i])
        argument_checks::refuse("put", name() + " has `batch_offsets` that decrease");
      check_length(static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]), field, i);
    }
  }

  /// Refuses what no rows can be read from.
  static void check_rows(const SourceLeaf& leaf, const RaggedField& field,
                         std::uint64_t i) {
    const auto name = [&] { return "leaf " + std::to_string(field.field); };
    if (leaf.offsets && (leaf.offsets[i] < 0 || leaf.offsets[i + 1] < leaf.offsets[i]))
      argument_checks::refuse(
          "put", name() + " has `offsets` from " + std::to_string(leaf.offsets[i]) +
                     " to " + std::to_string(leaf.offsets[i + 1]) +
                     "; they begin at 0 or above and never decrease");
    if (leaf.data == nullptr && leaf.rows_of(i) > 0)
      argument_checks::refuse("put", name() + " points to null");
  }

  const RowsTable* const table_;
  const std::uint64_t most_bytes_;
  std::vector<std::uint64_t> fitting_rows_;  // that are `most_bytes_`, of each field
};

}  // namespace echobuf
