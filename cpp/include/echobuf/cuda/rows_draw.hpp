// Draws of records that differ in length on the device: which kernels are launched, and
// behind which events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/payload_staging.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/transformed_rows.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/payload_planner.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The host knows all lengths, so it makes the tables of a batch: where the rows of
/// each record are, and where they go. One launch then draws all leaves, or a few dozen
/// of them. The device's context is the calling thread's.
class RowsDraw {
 public:
  using Form = LengthOptions::Form;

  RowsDraw(const SharedContext& context, const PayloadStaging& staging,
           const BatchLayout& batch, const BufferOptions& options, DrawOrder& order,
           const PayloadStaging::Window& window, const RowsKernels& kernels,
           const std::vector<StageKernels>& stages)
      : staging_(staging),
        batch_(batch),
        options_(options),
        window_(window),
        fields_(staging.fields().size()),
        transformed_(context, batch, options, most_records(options), stages),
        launch_(context, order, kernels,
                table_words(options, staging.fields().size())) {
    for (std::size_t i = 0; i < batch.leaves(); ++i) field_of_.push_back(find(i));
  }

  const DeviceContext& context() const { return *launch_.context(); }

  /// Words of a table at most: of the records of a batch, and for each field two more.
  static std::size_t table_words(const BufferOptions& options, std::size_t fields) {
    const std::uint64_t records = most_records(options);
    return size_product(records + 4, 2 * fields + 1) + 4 * (fields + 2) +
           DeviceTransformedRows::table_words(options, records);
  }
  /// Of the table, of what stages need, and for batches that wait in the middle.
  std::size_t device_bytes() const {
    return launch_.table().device_bytes() + transformed_.bytes() + apart_[0].bytes +
           apart_[1].bytes;
  }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout& batch) {
    return DrawTable::bytes(table_words(options, options.lengths.fields.size())) +
           DeviceTransformedRows::bytes(batch, options, most_records(options));
  }
  std::size_t leaves() const { return field_of_.size(); }

  /// The rows that a leaf of the batch has; 0 for one whose records are of one size.
  /// find_records() comes before.
  std::uint64_t rows_of(std::size_t leaf, Form form) const {
    if (!has_rows(leaf)) return 0;
    std::uint64_t all = 0;
    std::uint64_t longest = 0;
    for (const RecordRows& rows : fields_[field_of_[leaf]]) {
      all += rows.count;
      longest = std::max(longest, rows.count);
    }
    return round_up(form == Form::kPacked ? all : longest, options_.lengths.pad_to);
  }
  std::uint64_t records() const { return slots_.size(); }

  /// Finds the records of a batch: those that were set apart, and of `plan`.
  void find_records(const PayloadPlan& plan) {
    slots_ = apart_slots_;
    draws_ = apart_draws_;
    for (std::size_t f = 0; f < fields_.size(); ++f) fields_[f] = apart_fields_[f];
    for (const std::uint64_t slot : plan.slots) {
      slots_.push_back(window_.slots + slot * staging_.layout().stride());
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const PayloadStaging::Rows& rows = staging_.rows(slot, f);
        fields_[f].push_back({window_.payload + rows.offset, rows.count});
      }
    }
    for (const PassPart& part : plan.parts) {
      key_ = transform::transform_key(options_.seed, part.epoch);
      for (std::uint64_t i = 0; i < part.count; ++i) draws_.push_back(part.draw + i);
    }
  }

  /// Draws the records that were found, up to ring position `end`.
  void draw(const RowsTarget& target, std::uint64_t end, Form form) {
    std::vector<RowsLeaf> leaves;
    launch_.table().begin();
    const Address slots = table_of(slots_);
    std::vector<Tables> tables;
    for (const auto& rows : fields_) tables.push_back(tables_of(rows, form));
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      const RowsTarget::Leaf& to = target.leaves[i];
      const RowsPlan* const plan = batch_.all()[i].rows;
      if (has_rows(i)) {
        const std::size_t f = field_of_[i];
        leaves.push_back(rows_leaf(i, to, tables[f], form));
        leaves.push_back(index_leaf(to, tables[f], form));
        if (transformed_.makes(i)) list_rows(i, to, form);
      } else if (plan) {
        add_windows(i, *plan, to, leaves);
      } else if (transformed_.makes(i)) {
        list_slots(i, to);
      } else {
        leaves.push_back(slot_leaf(i, to, slots));
      }
    }
    const auto stream = static_cast<StreamHandle>(target.stream);
    launch_.draw(leaves, end, stream,
                 [&] { transformed_.enqueue(key_, launch_, stream); });
  }

  /// Copies the records that were found to memory of our own; they are the first of
  /// the next batch.
  void set_apart(std::uint64_t end, StreamHandle stream) {
    const std::size_t stride = staging_.layout().stride();
    std::size_t bytes = slots_.size() * stride;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      for (const RecordRows& rows : fields_[f]) bytes += padded(f, rows);
    Apart& apart = apart_[next_apart_ = 1 - next_apart_];
    if (bytes > apart.bytes) {
      launch_.await();  // who reads what is freed
      apart.grow(launch_.context(), bytes);
    }
    Address to = apart.memory ? apart.memory->get() : 0;

    std::vector<RowsLeaf> leaves;
    launch_.table().begin();
    RowsLeaf all = rows_leaf_at(to, slots_.size() * stride);
    all.sources = table_of(slots_);
    all.each = all.row = stride;
    leaves.push_back(of_records(all, slots_.size()));
    apart_draws_ = draws_;
    apart_slots_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i, to += stride)
      apart_slots_.push_back(to);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      std::uint64_t* const sources = launch_.table().add(slots_.size());
      std::uint64_t* const ends = launch_.table().add(slots_.size() + 1);
      RowsLeaf leaf = rows_leaf_at(to, 0);
      apart_fields_[f].clear();
      ends[0] = 0;
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        const RecordRows& rows = fields_[f][i];
        sources[i] = rows.address;
        ends[i + 1] = ends[i] + padded(f, rows) / kFieldAlignment;
        apart_fields_[f].push_back({to, rows.count});
        to += padded(f, rows);
      }
      leaf.bytes = ends[slots_.size()] * kFieldAlignment;
      leaf.sources = launch_.table().address(sources);
      leaf.ends = launch_.table().address(ends);
      leaf.row = kFieldAlignment;
      leaves.push_back(of_records(leaf, slots_.size()));
    }
    launch_.draw(leaves, end, stream);
  }

  /// What was set apart is drawn, or given up.
  void forget_apart() {
    apart_slots_.clear();
    apart_draws_.clear();
    for (auto& rows : apart_fields_) rows.clear();
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// The tables of one field in the device's memory.
  struct Tables {
    Address sources;
    Address index;  // offsets, or lengths
    Address cell;   // where the address of `index` is
  };

  /// Memory that grows.
  struct Apart {
    std::unique_ptr<DeviceMemory> memory;
    std::size_t bytes = 0;

    void grow(const SharedContext& context, std::size_t wanted) {
      memory.reset();
      bytes = 0;
      memory = make_device_memory(context, wanted);
      bytes = wanted;
    }
  };

  static std::uint64_t most_records(const BufferOptions& options) {
    return options.lengths.max_rows > 0 ? options.window : options.batch_size;
  }

  /// Returns whether a leaf of the batch has as many rows as the records.
  bool has_rows(std::size_t leaf) const {
    const RowsPlan* const plan = batch_.all()[leaf].rows;
    return field_of_[leaf] != kNone && !(plan && plan->windowed());
  }

  std::size_t find(std::size_t leaf) const {
    for (std::size_t f = 0; f < staging_.fields().size(); ++f)
      if (batch_.all()[leaf].field == staging_.fields()[f].field) return f;
    return kNone;
  }

  /// Bytes of a record's rows, up to where another field may begin.
  std::size_t padded(std::size_t field, const RecordRows& rows) const {
    return round_up(rows.count * staging_.fields()[field].row_bytes, kFieldAlignment);
  }

  Address table_of(const std::vector<Address>& addresses) {
    std::uint64_t* const table = launch_.table().add(addresses.size());
    std::copy(addresses.begin(), addresses.end(), table);
    return launch_.table().address(table);
  }

  Tables tables_of(const std::vector<RecordRows>& all, Form form) {
    std::uint64_t* const sources = launch_.table().add(all.size());
    std::uint64_t* const index = launch_.table().add(all.size() + 1);
    std::uint64_t* const cell = launch_.table().add(1);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sources[i] = all[i].address;
      index[i] = form == Form::kPacked ? end : all[i].count;
      end += all[i].count;
    }
    index[all.size()] = end;
    *cell = launch_.table().address(index);
    return {launch_.table().address(sources), *cell, launch_.table().address(cell)};
  }

  /// A field of one size.
  RowsLeaf slot_leaf(std::size_t number, const RowsTarget::Leaf& to,
                     Address slots) const {
    const BatchLayout::Leaf& of = batch_.all()[number];
    RowsLeaf leaf =
        rows_leaf_at(reinterpret_cast<Address>(to.values), of.bytes * slots_.size());
    leaf.sources = slots;
    leaf.add = staging_.layout().fields()[of.field].offset;
    leaf.each = leaf.row = of.bytes;
    return of_records(leaf, slots_.size());
  }

  /// The rows of all records, or, where stages make these, what is padded behind them.
  RowsLeaf rows_leaf(std::size_t number, const RowsTarget::Leaf& to,
                     const Tables& tables, Form form) const {
    const RaggedField& of = staging_.fields()[field_of_[number]];
    const bool made = transformed_.makes(number);
    const std::size_t row = made ? batch_.all()[number].rows->bytes : of.row_bytes;
    const std::uint64_t place = to.rows * row;
    const bool packed = form == Form::kPacked;
    RowsLeaf leaf = rows_leaf_at(reinterpret_cast<Address>(to.values),
                                 packed ? place : place * slots_.size());
    leaf.sources = made ? 0 : tables.sources;
    leaf.row = row;
    if (packed) {
      leaf.ends = tables.index;
    } else {
      leaf.each = place;
      leaf.lengths = tables.index;
    }
    leaf.pad = rows_padding(made ? options_.leaves[number].pad : of.pad, leaf.base);
    return of_records(leaf, slots_.size());
  }

  /// Offsets or lengths, copied from the table.
  RowsLeaf index_leaf(const RowsTarget::Leaf& to, const Tables& tables,
                      Form form) const {
    const std::size_t count = slots_.size() + (form == Form::kPacked ? 1 : 0);
    RowsLeaf leaf =
        rows_leaf_at(reinterpret_cast<Address>(to.index), count * sizeof(std::int64_t));
    leaf.sources = tables.cell;
    leaf.each = leaf.bytes;
    leaf.row = sizeof(std::int64_t);
    return of_records(leaf, 1);
  }

  // ---- leaves of plans

  /// All rows of the records, in pieces.
  void list_rows(std::size_t number, const RowsTarget::Leaf& to, Form form) {
    const std::size_t row = batch_.all()[number].rows->bytes;
    Address target = reinterpret_cast<Address>(to.values);
    examples_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const RecordRows& rows = fields_[field_of_[number]][i];
      examples_.push_back({rows, target, draws_[i]});
      target += (form == Form::kPacked ? rows.count : to.rows) * row;
    }
    transformed_.list(number, examples_, launch_.table());
  }

  /// Windows: made by stages, or as they are.
  void add_windows(std::size_t number, const RowsPlan& plan, const RowsTarget::Leaf& to,
                   std::vector<RowsLeaf>& leaves) {
    const auto base = reinterpret_cast<Address>(to.values);
    examples_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i)
      examples_.push_back({transformed_.window(plan, {key_, draws_[i], 0},
                                               fields_[field_of_[number]][i]),
                           base + i * plan.bytes, draws_[i]});
    if (transformed_.makes(number))
      return transformed_.list(number, examples_, launch_.table());
    RowsLeaf leaf = rows_leaf_at(base, plan.bytes * slots_.size());
    std::uint64_t* const sources = launch_.table().add(slots_.size());
    std::uint64_t* const lengths = launch_.table().add(slots_.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      sources[i] = examples_[i].rows.address;
      lengths[i] = examples_[i].rows.count;
    }
    leaf.sources = launch_.table().address(sources);
    leaf.lengths = launch_.table().address(lengths);
    leaf.each = plan.bytes;
    leaf.row = plan.window_row();
    if (!plan.mask)
      leaf.pad = rows_padding(staging_.fields()[field_of_[number]].pad, base);
    leaves.push_back(of_records(leaf, slots_.size()));
  }

  /// Fields of one size.
  void list_slots(std::size_t number, const RowsTarget::Leaf& to) {
    const BatchLayout::Leaf& of = batch_.all()[number];
    const std::size_t offset = staging_.layout().fields()[of.field].offset;
    examples_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i)
      examples_.push_back({{slots_[i] + offset, 1},
                           reinterpret_cast<Address>(to.values) + i * of.bytes,
                           draws_[i]});
    transformed_.list(number, examples_, launch_.table());
  }

  const PayloadStaging& staging_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  const PayloadStaging::Window window_;
  std::vector<std::size_t> field_of_;  // of each leaf: that of any length, or kNone

  // The records of the batch, in its order.
  std::vector<Address> slots_;
  std::vector<std::uint64_t> draws_;  // of the epoch
  std::vector<std::vector<RecordRows>> fields_;
  Philox4x32Key key_{};  // of the epoch

  // The first of them, where they were set apart: in one of two places, since the next
  // ones join them in the other.
  std::vector<Address> apart_slots_;
  std::vector<std::uint64_t> apart_draws_;
  std::vector<std::vector<RecordRows>> apart_fields_{staging_.fields().size()};
  Apart apart_[2];
  int next_apart_ = 0;

  DeviceTransformedRows transformed_;
  std::vector<DeviceTransformedRows::Example> examples_;  // of one leaf
  RowsLaunch launch_;                                     // goes first: it waits
};

}  // namespace echobuf::cuda
