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

  RowsDraw(SharedContext context, const PayloadStaging& staging,
           const BatchLayout& batch, const BufferOptions& options, DrawOrder& order,
           const PayloadStaging::Window& window, FunctionHandle kernel)
      : context_(std::move(context)),
        staging_(staging),
        batch_(batch),
        options_(options),
        order_(order),
        window_(window),
        kernel_(kernel),
        table_(context_, table_words(options, staging.fields().size())),
        fields_(staging.fields().size()) {
    for (std::size_t i = 0; i < batch.leaves(); ++i) field_of_.push_back(find(i));
  }

  /// Waits for the last draw, which reads memory of this.
  ~RowsDraw() { order_.await_draws(); }
  RowsDraw(const RowsDraw&) = delete;
  RowsDraw& operator=(const RowsDraw&) = delete;

  const DeviceContext& context() const { return *context_; }

  /// Words of a table at most: of the records of a batch, and for each field two more.
  static std::size_t table_words(const BufferOptions& options, std::size_t fields) {
    const std::uint64_t records =
        options.lengths.max_rows > 0 ? options.window : options.batch_size;
    return size_product(records + 4, 2 * fields + 1) + 4 * (fields + 2);
  }
  /// Of the table, and for batches that wait in the middle.
  std::size_t device_bytes() const {
    return table_.device_bytes() + apart_[0].bytes + apart_[1].bytes;
  }
  std::size_t leaves() const { return field_of_.size(); }

  /// The rows that a leaf of the batch has; 0 for one whose records are of one size.
  /// find_records() comes before.
  std::uint64_t rows_of(std::size_t leaf, Form form) const {
    if (field_of_[leaf] == kNone) return 0;
    std::uint64_t all = 0;
    std::uint64_t longest = 0;
    for (const Rows& rows : fields_[field_of_[leaf]]) {
      all += rows.count;
      longest = std::max(longest, rows.count);
    }
    return round_up(form == Form::kPacked ? all : longest, options_.lengths.pad_to);
  }
  std::uint64_t records() const { return slots_.size(); }

  /// Finds the records of a batch: those that were set apart, and of `plan`.
  void find_records(const PayloadPlan& plan) {
    slots_ = apart_slots_;
    for (std::size_t f = 0; f < fields_.size(); ++f) fields_[f] = apart_fields_[f];
    for (const std::uint64_t slot : plan.slots) {
      slots_.push_back(window_.slots + slot * staging_.layout().stride());
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        const PayloadStaging::Rows& rows = staging_.rows(slot, f);
        fields_[f].push_back({window_.payload + rows.offset, rows.count});
      }
    }
  }

  /// Draws the records that were found, up to ring position `end`.
  void draw(const RowsTarget& target, std::uint64_t end, Form form) {
    std::vector<RowsLeaf> leaves;
    table_.begin();
    const Address slots = table_of(slots_);
    std::vector<Tables> tables;
    for (const auto& rows : fields_) tables.push_back(tables_of(rows, form));
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      const RowsTarget::Leaf& to = target.leaves[i];
      if (field_of_[i] == kNone) {
        leaves.push_back(slot_leaf(i, to, slots));
      } else {
        const std::size_t f = field_of_[i];
        leaves.push_back(rows_leaf(f, to, tables[f], form));
        leaves.push_back(index_leaf(to, tables[f], form));
      }
    }
    run(leaves, end, static_cast<StreamHandle>(target.stream));
  }

  /// Copies the records that were found to memory of our own; they are the first of
  /// the next batch.
  void set_apart(std::uint64_t end, StreamHandle stream) {
    const std::size_t stride = staging_.layout().stride();
    std::size_t bytes = slots_.size() * stride;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      for (const Rows& rows : fields_[f]) bytes += padded(f, rows);
    Apart& apart = apart_[next_apart_ = 1 - next_apart_];
    apart.grow(context_, bytes);
    Address to = apart.memory ? apart.memory->get() : 0;

    std::vector<RowsLeaf> leaves;
    table_.begin();
    RowsLeaf all = leaf_at(to, slots_.size() * stride);
    all.sources = table_of(slots_);
    all.each = all.row = stride;
    leaves.push_back(with_grain(all));
    apart_slots_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i, to += stride)
      apart_slots_.push_back(to);
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      std::uint64_t* const sources = table_.add(slots_.size());
      std::uint64_t* const ends = table_.add(slots_.size() + 1);
      RowsLeaf leaf = leaf_at(to, 0);
      apart_fields_[f].clear();
      ends[0] = 0;
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        const Rows& rows = fields_[f][i];
        sources[i] = rows.address;
        ends[i + 1] = ends[i] + padded(f, rows) / kFieldAlignment;
        apart_fields_[f].push_back({to, rows.count});
        to += padded(f, rows);
      }
      leaf.bytes = ends[slots_.size()] * kFieldAlignment;
      leaf.sources = table_.address(sources);
      leaf.ends = table_.address(ends);
      leaf.row = kFieldAlignment;
      leaves.push_back(with_grain(leaf));
    }
    run(leaves, end, stream);
  }

  /// What was set apart is drawn, or given up.
  void forget_apart() {
    apart_slots_.clear();
    for (auto& rows : apart_fields_) rows.clear();
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// The rows of one field of a record.
  struct Rows {
    Address address;
    std::uint64_t count;
  };

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
      if (wanted <= bytes) return;
      memory.reset();  // waits for who reads it
      bytes = 0;
      memory = make_device_memory(context, wanted);
      bytes = wanted;
    }
  };

  std::size_t find(std::size_t leaf) const {
    for (std::size_t f = 0; f < staging_.fields().size(); ++f)
      if (batch_.all()[leaf].field == staging_.fields()[f].field) return f;
    return kNone;
  }

  /// Bytes of a record's rows, up to where another field may begin.
  std::size_t padded(std::size_t field, const Rows& rows) const {
    return round_up(rows.count * staging_.fields()[field].row_bytes, kFieldAlignment);
  }

  Address table_of(const std::vector<Address>& addresses) {
    std::uint64_t* const table = table_.add(addresses.size());
    std::copy(addresses.begin(), addresses.end(), table);
    return table_.address(table);
  }

  Tables tables_of(const std::vector<Rows>& all, Form form) {
    std::uint64_t* const sources = table_.add(all.size());
    std::uint64_t* const index = table_.add(all.size() + 1);
    std::uint64_t* const cell = table_.add(1);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      sources[i] = all[i].address;
      index[i] = form == Form::kPacked ? end : all[i].count;
      end += all[i].count;
    }
    index[all.size()] = end;
    *cell = table_.address(index);
    return {table_.address(sources), *cell, table_.address(cell)};
  }

  static RowsLeaf leaf_at(Address base, std::uint64_t bytes) {
    RowsLeaf leaf;
    leaf.base = base;
    leaf.bytes = bytes;
    return leaf;
  }

  RowsLeaf with_grain(RowsLeaf leaf) const {
    leaf.records = static_cast<std::uint32_t>(slots_.size());
    const std::uint64_t all = leaf.base | leaf.row | 8;
    leaf.grain = static_cast<std::uint32_t>(all & (~all + 1));
    return leaf;
  }

  /// A field of one size.
  RowsLeaf slot_leaf(std::size_t number, const RowsTarget::Leaf& to,
                     Address slots) const {
    const BatchLayout::Leaf& of = batch_.all()[number];
    RowsLeaf leaf =
        leaf_at(reinterpret_cast<Address>(to.values), of.bytes * slots_.size());
    leaf.sources = slots;
    leaf.add = staging_.layout().fields()[of.field].offset;
    leaf.each = leaf.row = of.bytes;
    return with_grain(leaf);
  }

  RowsLeaf rows_leaf(std::size_t field, const RowsTarget::Leaf& to,
                     const Tables& tables, Form form) const {
    const RaggedField& of = staging_.fields()[field];
    const std::uint64_t place = to.rows * of.row_bytes;
    const bool packed = form == Form::kPacked;
    RowsLeaf leaf = leaf_at(reinterpret_cast<Address>(to.values),
                            packed ? place : place * slots_.size());
    leaf.sources = tables.sources;
    leaf.row = of.row_bytes;
    if (packed) {
      leaf.ends = tables.index;
    } else {
      leaf.each = place;
      leaf.lengths = tables.index;
    }
    leaf.pad = padding(of.pad, leaf.base);
    return with_grain(leaf);
  }

  /// Offsets or lengths, copied from the table.
  RowsLeaf index_leaf(const RowsTarget::Leaf& to, const Tables& tables,
                      Form form) const {
    const std::size_t count = slots_.size() + (form == Form::kPacked ? 1 : 0);
    RowsLeaf leaf =
        leaf_at(reinterpret_cast<Address>(to.index), count * sizeof(std::int64_t));
    leaf.sources = tables.cell;
    leaf.each = leaf.bytes;
    leaf.row = sizeof(std::int64_t);
    leaf = with_grain(leaf);
    leaf.records = 1;
    return leaf;
  }

  /// The bytes of a pattern by addresses modulo 16, where it begins at `base`.
  static Word padding(const std::vector<std::byte>& pattern, Address base) {
    Word word{0, 0};
    for (std::uint64_t i = 0; i < 16 && !pattern.empty(); ++i) {
      const auto byte = static_cast<std::uint64_t>(pattern[i % pattern.size()]);
      const std::uint64_t at = (base + i) % 16;
      (at < 8 ? word.low : word.high) |= byte << (at % 8 * 8);
    }
    return word;
  }

  /// Enqueues the copy of the table, and the launches.
  void run(std::vector<RowsLeaf>& leaves, std::uint64_t end, StreamHandle stream) try {
    order_.order_draw(stream, end);
    table_.send(stream);
    for (std::size_t first = 0; first < leaves.size(); first += kRowsLeaves) {
      RowsMoves moves;
      const std::size_t some =
          std::min<std::size_t>(kRowsLeaves, leaves.size() - first);
      for (std::size_t i = 0; i < some; ++i) {
        RowsLeaf& leaf = leaves[first + i];
        moves.words += rows_words(leaf.base, leaf.bytes);
        leaf.words = moves.words;
        moves.leaf[i] = leaf;
      }
      if (moves.words > 0) launch(moves, stream);
    }
    order_.note_draw(stream);
  } catch (const Error& error) {
    order_.lose_draw(stream, error);
    throw;
  }

  void launch(RowsMoves& moves, StreamHandle stream) const {
    constexpr std::uint64_t kWords = std::uint64_t{kRowsThreads} * kRowsAtOnce;
    const auto blocks = static_cast<unsigned>((moves.words + kWords - 1) / kWords);
    void* arguments[] = {&moves};
    context().driver().launch(kernel_, blocks, 1u, 1u, kRowsThreads, 1u, 1u, 0u, stream,
                              arguments, static_cast<void**>(nullptr));
  }

  const SharedContext context_;
  const PayloadStaging& staging_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  DrawOrder& order_;
  const PayloadStaging::Window window_;
  const FunctionHandle kernel_;
  DrawTable table_;
  std::vector<std::size_t> field_of_;  // of each leaf: that of any length, or kNone

  // The records of the batch, in its order.
  std::vector<Address> slots_;
  std::vector<std::vector<Rows>> fields_;

  // The first of them, where they were set apart: in one of two places, since the next
  // ones join them in the other.
  std::vector<Address> apart_slots_;
  std::vector<std::vector<Rows>> apart_fields_{staging_.fields().size()};
  Apart apart_[2];
  int next_apart_ = 0;
};

}  // namespace echobuf::cuda
