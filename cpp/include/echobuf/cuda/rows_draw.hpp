// Draws of records with rows on the device: which kernels are launched, and behind
// which events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/planned_leaves.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/rows_tables.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"

namespace echobuf::cuda {

/// The host knows all lengths, so it makes the tables of a batch: where the rows of
/// each record are, and where they go. One launch then draws all leaves, or a few dozen
/// of them. The device's context is the calling thread's.
class RowsDraw {
 public:
  /// All must outlive it. Throws Error, std::bad_alloc.
  RowsDraw(const SharedContext& context, const Staging& staging,
           const BatchLayout& batch, const BufferOptions& options, DrawOrder& order,
           const Staging::Window& window, const Kernels& kernels,
           const std::vector<StageKernels>& stages)
      : staging_(staging),
        table_(*staging.table()),
        batch_(batch),
        options_(options),
        window_(window),
        planned_(context, staging, batch, options, most_records(options), stages),
        launch_(context, order, kernels,
                table_words(options, staging.table()->fields().size())) {
    for (std::size_t i = 0; i < batch.leaves(); ++i) field_of_.push_back(find(i));
    found_.fields.resize(table_.fields().size());
    apart_.fields.resize(table_.fields().size());
  }

  /// Words of a table at most: of the records of a batch, and for each field two more.
  static std::size_t table_words(const BufferOptions& options, std::size_t fields) {
    const std::uint64_t records = most_records(options);
    return size_product(records + 4, 2 * fields + 1) + 4 * (fields + 2) +
           DeviceTransformedRows::table_words(options, records) +
           RowsInfos::words(options.has_infos(), records);
  }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout& batch) {
    return RowsLaunch::device_bytes(
               table_words(options, options.lengths.fields.size())) +
           DeviceTransformedRows::bytes(batch, options, most_records(options));
  }
  /// Of the tables, of what stages need, and for batches that wait in the middle.
  std::size_t device_bytes() const {
    return launch_.device_bytes() + planned_.bytes() + apart_memory_[0].bytes +
           apart_memory_[1].bytes;
  }

  // ---- the batch that is next

  /// Finds its records: those that were set apart, and of `plan`.
  void find(const BatchPlan& plan) {
    found_ = apart_;
    found_.end = plan.end;
    found_.uses.insert(found_.uses.end(), plan.uses.begin(), plan.uses.end());
    for (const std::uint64_t slot : plan.slots) {
      const std::uint64_t examples = table_.examples_of(slot);
      found_.examples += examples;
      found_.slots.push_back(window_.slots + slot * staging_.layout().stride());
      for (std::size_t f = 0; f < found_.fields.size(); ++f)
        for (std::uint64_t i = 0; i < examples; ++i) {
          const RowsTable::Rows& rows = table_.example(slot, f, i);
          found_.fields[f].push_back({window_.payload + rows.offset, rows.count});
        }
    }
    for (const PassPart& part : plan.parts) {
      found_.key = transform::transform_key(options_.seed, part.epoch);
      for (std::uint64_t i = 0; i < part.count; ++i)
        found_.draws.push_back(part.draw + i);
    }
  }

  /// Returns whether it is as large as batches are, and not the last one.
  bool is_whole() const { return found_.examples == options_.most_examples(); }
  /// Returns whether the memory is of the batch's size, or has room for it; says what
  /// that is, else.
  bool fits(RowsTarget& target) const {
    const std::size_t leaves = field_of_.size();
    const bool roomy = target.room > 0;
    bool fit =
        target.leaves.size() == leaves &&
        (roomy ? target.room >= found_.examples : target.count == found_.examples);
    target.needed.resize(leaves);
    for (std::size_t i = 0; i < leaves; ++i) {
      target.needed[i] = rows_of(i);
      if (!fit) continue;
      const std::uint64_t rows = target.leaves[i].rows;
      fit = roomy ? rows >= target.needed[i] : rows == target.needed[i];
    }
    target.count = found_.examples;
    return fit;
  }
  /// The same of the memory of a graph; of any, if the target names none.
  bool fits_captured(RowsTarget& target) const {
    return target.leaves.empty() || fits(target);
  }

  void draw(const RowsTarget& target) {
    launch_.table().begin();
    const RowsTables tables = fill(launch_.table());
    std::vector<RowsLeaf> leaves = leaves_of(target, tables);
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      const auto* rows = field_of_[i] == kNone ? nullptr : &found_.fields[field_of_[i]];
      planned_.list(i, found_, rows, target.leaves[i], launch_.table(), leaves);
    }
    const auto stream = static_cast<StreamHandle>(target.stream);
    launch_.draw(leaves, found_.end, stream,
                 [&] { planned_.enqueue(found_.key, launch_, stream); });
  }

  /// Copies its records to memory of our own; they are the first of the next batch.
  void set_apart(StreamHandle stream) {
    const std::size_t stride = staging_.layout().stride();
    const std::size_t count = found_.slots.size();
    std::size_t bytes = count * stride;
    for (std::size_t f = 0; f < found_.fields.size(); ++f)
      for (const RecordRows& rows : found_.fields[f]) bytes += padded(f, rows);
    Apart& apart = apart_memory_[1 - apart_in_];
    if (bytes > apart.bytes) {
      launch_.await();  // who reads what is freed
      apart.grow(launch_.context(), bytes);
    }
    apart_in_ = 1 - apart_in_;  // where there is memory: else the other one stays
    Address to = apart.memory ? apart.memory->get() : 0;

    std::vector<RowsLeaf> leaves;
    launch_.table().begin();
    RowsLeaf all = rows_leaf_at(to, count * stride);
    std::uint64_t* const at = launch_.table().add(count);
    std::copy(found_.slots.begin(), found_.slots.end(), at);
    all.sources = launch_.table().address(at);
    all.each = all.row = stride;
    leaves.push_back(of_records(all, count));
    apart_ = found_;
    for (Address& slot : apart_.slots) {
      slot = to;
      to += stride;
    }
    for (std::size_t f = 0; f < apart_.fields.size(); ++f) {
      std::uint64_t* const sources = launch_.table().add(count);
      std::uint64_t* const ends = launch_.table().add(count + 1);
      RowsLeaf leaf = rows_leaf_at(to, 0);
      ends[0] = 0;
      for (std::size_t i = 0; i < count; ++i) {
        RecordRows& rows = apart_.fields[f][i];
        sources[i] = rows.address;
        ends[i + 1] = ends[i] + padded(f, rows) / kFieldAlignment;
        rows.address = to;
        to += padded(f, rows);
      }
      leaf.bytes = ends[count] * kFieldAlignment;
      leaf.sources = launch_.table().address(sources);
      leaf.ends = launch_.table().address(ends);
      leaf.row = kFieldAlignment;
      leaves.push_back(of_records(leaf, count));
    }
    launch_.draw(leaves, found_.end, stream);
  }
  /// What was set apart is drawn, or given up.
  void forget_apart() { apart_.clear(); }

  // ---- in graphs

  /// Returns whether graphs may have draws: what plans make is not for them yet.
  bool has_graphs() const {
    return options_.lengths.max_rows == 0 && !batch_.planned();
  }
  /// Returns whether the target has room for as many examples as a batch has at most.
  bool can_capture(const RowsTarget& target) const {
    return has_graphs() && target.room == options_.most_examples() &&
           target.leaves.size() == field_of_.size();
  }

  /// Puts a draw of so many into the graph that is being captured.
  void capture(RowsTarget& target) const {
    const RowsTables tables(
        launch_.captured_table().begin_address() + 8 * RowsLaunch::kLive,
        options_.batch_size, options_.most_examples(), found_.fields.size(),
        options_.has_infos());
    std::vector<RowsLeaf> leaves = leaves_of(target, tables);
    launch_.capture(leaves, static_cast<StreamHandle>(target.stream));
    target.count = options_.most_examples();
    target.captured = true;
  }

  /// Makes the next batch what captured draws draw later on `stream`. That they have
  /// read it is for the caller to note.
  void send(StreamHandle stream) {
    DrawTable& table = launch_.captured_table();
    table.begin();
    std::fill_n(table.add(RowsLaunch::kLive), RowsLaunch::kLive, 1);
    fill(table);
    launch_.send_captured(found_.end, stream);
  }

  /// From now on captured draws on `stream` draw nothing.
  void erase(StreamHandle stream) { launch_.erase_captured(stream); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

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
    return options.lengths.max_rows > 0 ? options.window : options.most_examples();
  }

  bool is_packed() const {
    return options_.lengths.form == LengthOptions::Form::kPacked;
  }

  /// The rows that a leaf of the batch has; 0 for one whose records are of one size.
  std::uint64_t rows_of(std::size_t leaf) const {
    if (!has_rows(leaf)) return 0;
    std::uint64_t all = 0;
    std::uint64_t longest = 0;
    for (const RecordRows& rows : found_.fields[field_of_[leaf]]) {
      all += rows.count;
      longest = std::max(longest, rows.count);
    }
    return round_up(is_packed() ? all : longest, options_.lengths.pad_to);
  }

  /// Returns whether a leaf of the batch has as many rows as the records.
  bool has_rows(std::size_t leaf) const {
    const RowsPlan* const plan = batch_.all()[leaf].rows;
    return field_of_[leaf] != kNone && !(plan && plan->windowed());
  }

  std::size_t find(std::size_t leaf) const {
    for (std::size_t f = 0; f < table_.fields().size(); ++f)
      if (batch_.all()[leaf].field == table_.fields()[f].field) return f;
    return kNone;
  }

  /// Bytes of a record's rows, up to where another field may begin.
  std::size_t padded(std::size_t field, const RecordRows& rows) const {
    return round_up(rows.count * table_.fields()[field].row_bytes, kFieldAlignment);
  }

  /// Writes the next words of a table: of the records that were found.
  RowsTables fill(DrawTable& table) {
    const bool infos = options_.has_infos();
    const RowsTables none(0, found_.slots.size(), found_.examples, found_.fields.size(),
                          infos);
    std::uint64_t* const words = table.add(none.words);
    const Address begin = table.address(words);
    RowsTables tables(begin, found_.slots.size(), found_.examples, found_.fields.size(),
                      infos);
    const auto at = [&](Address address) { return words + (address - begin) / 8; };
    std::copy(found_.slots.begin(), found_.slots.end(), at(tables.slots));
    for (std::size_t f = 0; f < found_.fields.size(); ++f) {
      std::uint64_t* const sources = at(tables.fields[f].sources);
      std::uint64_t* const index = at(tables.fields[f].index);
      std::uint64_t end = 0;
      for (std::size_t i = 0; i < found_.examples; ++i) {
        const RecordRows& rows = found_.fields[f][i];
        sources[i] = rows.address;
        index[i] = is_packed() ? end : rows.count;
        end += rows.count;
      }
      index[found_.examples] = end;
      *at(tables.fields[f].cell) = tables.fields[f].index;
    }
    tables.infos.fill(found_.uses, table_.in_batches(),
                      words + tables.words - tables.infos.words());
    return tables;
  }

  /// The leaves that are copied, and what is beside those that stages make.
  std::vector<RowsLeaf> leaves_of(const RowsTarget& target,
                                  const RowsTables& tables) const {
    std::vector<RowsLeaf> leaves;
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      const RowsTarget::Leaf& to = target.leaves[i];
      if (has_rows(i)) {
        leaves.push_back(rows_leaf(i, to, tables));
        leaves.push_back(index_leaf(field_of_[i], to, tables));
      } else if (batch_.all()[i].info != InfoLeaf::kNone) {
        const auto address = reinterpret_cast<Address>(to.values);
        leaves.push_back(tables.infos.leaf(batch_.all()[i].info, address));
      } else if (!planned_.has(i)) {
        leaves.push_back(slot_leaf(i, to, tables));
      }
    }
    return leaves;
  }

  /// A field of one size; of a whole batch, with the rows of all of its examples.
  RowsLeaf slot_leaf(std::size_t number, const RowsTarget::Leaf& to,
                     const RowsTables& tables) const {
    const BatchLayout::Leaf& of = batch_.all()[number];
    RowsLeaf leaf =
        rows_leaf_at(reinterpret_cast<Address>(to.values), of.bytes * tables.examples);
    leaf.sources = tables.slots;
    leaf.add = staging_.layout().fields()[of.field].offset;
    leaf.each = leaf.row = of.bytes;
    if (table_.in_batches()) leaf.each *= tables.examples;
    return of_records(leaf, tables.records);
  }

  /// The rows of all records, or, where stages make these, what is padded behind them.
  RowsLeaf rows_leaf(std::size_t number, const RowsTarget::Leaf& to,
                     const RowsTables& tables) const {
    const std::size_t field = field_of_[number];
    const RaggedField& of = table_.fields()[field];
    const bool made = planned_.makes(number);
    const std::size_t row = made ? batch_.all()[number].rows->bytes : of.row_bytes;
    const std::uint64_t place = to.rows * row;
    RowsLeaf leaf = rows_leaf_at(reinterpret_cast<Address>(to.values),
                                 is_packed() ? place : place * tables.examples);
    leaf.sources = made ? 0 : tables.fields[field].sources;
    leaf.row = row;
    if (is_packed()) {
      leaf.ends = tables.fields[field].index;
    } else {
      leaf.each = place;
      leaf.lengths = tables.fields[field].index;
    }
    leaf.pad = rows_padding(made ? options_.leaves[number].pad : of.pad, leaf.base);
    return of_records(leaf, tables.examples);
  }

  /// Offsets or lengths, copied from the table.
  RowsLeaf index_leaf(std::size_t field, const RowsTarget::Leaf& to,
                      const RowsTables& tables) const {
    const std::size_t count = tables.examples + (is_packed() ? 1 : 0);
    RowsLeaf leaf =
        rows_leaf_at(reinterpret_cast<Address>(to.index), count * sizeof(std::int64_t));
    leaf.sources = tables.fields[field].cell;
    leaf.each = leaf.bytes;
    leaf.row = sizeof(std::int64_t);
    return of_records(leaf, 1);
  }

  const Staging& staging_;
  const RowsTable& table_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  const Staging::Window window_;
  std::vector<std::size_t> field_of_;  // of each leaf: that of any length, or kNone

  RowsBatch found_;

  // Its first records, where they were set apart: in one of two places, since the next
  // ones join them in the other.
  RowsBatch apart_;
  Apart apart_memory_[2];
  int apart_in_ = 0;  // the one that they are in

  PlannedLeaves planned_;
  RowsLaunch launch_;  // goes first: it waits
};

}  // namespace echobuf::cuda
