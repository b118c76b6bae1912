// The leaves of a batch of records that differ in length that plans make on the device:
// by stages, or as windows of the rows as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/transformed_rows.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/options.hpp"

namespace echobuf::cuda {

/// The records of a batch in its order, or its only one, a whole batch: where they lie
/// on the device.
struct RowsBatch {
  std::vector<Address> slots;
  std::vector<std::uint64_t> draws;             // of the epoch
  std::vector<DrawnUse> uses;                   // where draws know them
  std::vector<std::vector<RecordRows>> fields;  // of each example
  std::uint64_t examples = 0;
  Philox4x32Key key{};    // of the epoch
  std::uint64_t end = 0;  // ring position up to which they are read

  void clear() {
    slots.clear();
    draws.clear();
    uses.clear();
    for (auto& rows : fields) rows.clear();
    examples = 0;
    end = 0;
  }
};

/// The leaves that a plan makes.
class PlannedLeaves {
 public:
  PlannedLeaves(const SharedContext& context, const Staging& staging,
                const BatchLayout& batch, const BufferOptions& options,
                std::uint64_t records, const std::vector<StageKernels>& stages)
      : staging_(staging),
        table_(*staging.table()),
        batch_(batch),
        options_(options),
        transformed_(context, batch, options, records, stages) {}

  /// Returns whether stages make a leaf.
  bool makes(std::size_t leaf) const { return transformed_.makes(leaf); }
  /// Returns whether a plan makes all of a leaf.
  bool has(std::size_t leaf) const { return batch_.all()[leaf].rows || makes(leaf); }
  std::size_t bytes() const { return transformed_.bytes(); }

  /// Enters a leaf in the table, for stages or as one of `leaves`; nothing, if no plan
  /// makes it. `rows`: of the examples, in the leaf's field; null: that has none.
  void list(std::size_t number, const RowsBatch& records,
            const std::vector<RecordRows>* rows, const RowsTarget::Leaf& to,
            DrawTable& table, std::vector<RowsLeaf>& leaves) {
    const BatchLayout::Leaf& of = batch_.all()[number];
    if (!has(number)) return;
    find(of, records, rows, to);
    if (makes(number)) return transformed_.list(number, examples_, table);
    leaves.push_back(window_leaf(of, to, table));
  }

  /// See DeviceTransformedRows.
  void enqueue(const Philox4x32Key& key, const RowsLaunch& rows, StreamHandle stream) {
    transformed_.enqueue(key, rows, stream);
  }

 private:
  /// Finds the rows of each example, and where what is made of them goes.
  void find(const BatchLayout::Leaf& of, const RowsBatch& records,
            const std::vector<RecordRows>* all, const RowsTarget::Leaf& to) {
    const RowsPlan* const plan = of.rows;
    const bool packed = options_.lengths.form == LengthOptions::Form::kPacked;
    auto target = reinterpret_cast<Address>(to.values);
    examples_.clear();
    const bool whole = table_.in_batches();
    for (std::size_t i = 0; i < records.examples; ++i) {
      const std::size_t record = whole ? 0 : i;
      const auto row = static_cast<std::uint32_t>(whole ? i : 0);
      const std::uint64_t draw = records.draws[record];
      const DrawnUse use = records.uses.empty() ? DrawnUse{} : records.uses[record];
      if (!plan) {
        const Field& field = staging_.layout().fields()[of.field];
        const Address from =
            records.slots[record] + field.offset + row * field.row_bytes;
        examples_.push_back({{from, 1}, target, draw, row, use});
        target += of.bytes;
      } else if (plan->windowed()) {
        const RecordRows& rows = (*all)[i];
        transform::DrawNumber number{records.key, draw, row};
        number.record = use.record;
        number.echo = use.echo;
        const RecordRows window = transformed_.window(*plan, number, rows);
        examples_.push_back({window, target, draw, row, use});
        target += plan->bytes;
      } else {
        const RecordRows& rows = (*all)[i];
        examples_.push_back({rows, target, draw, row, use});
        target += (packed ? rows.count : to.rows) * plan->bytes;
      }
    }
  }

  /// Windows as they are.
  RowsLeaf window_leaf(const BatchLayout::Leaf& of, const RowsTarget::Leaf& to,
                       DrawTable& table) const {
    const RowsPlan& plan = *of.rows;
    const std::size_t count = examples_.size();
    RowsLeaf leaf =
        rows_leaf_at(reinterpret_cast<Address>(to.values), plan.bytes * count);
    std::uint64_t* const sources = table.add(count);
    std::uint64_t* const lengths = table.add(count);
    for (std::size_t i = 0; i < count; ++i) {
      sources[i] = examples_[i].rows.address;
      lengths[i] = examples_[i].rows.count;
    }
    leaf.sources = table.address(sources);
    leaf.lengths = table.address(lengths);
    leaf.each = plan.bytes;
    leaf.row = plan.window_row();
    if (const auto* const pad = DeviceTransformedRows::pad_of(options_, of))
      leaf.pad = rows_padding(*pad, leaf.base);
    return of_records(leaf, count);
  }

  const Staging& staging_;
  const RowsTable& table_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  DeviceTransformedRows transformed_;
  std::vector<DeviceTransformedRows::Example> examples_;  // of one leaf
};

}  // namespace echobuf::cuda
