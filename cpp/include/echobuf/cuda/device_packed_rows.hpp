// Batches of rows of one length in device memory, that records are packed into.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/transformed_rows.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/rows_layout.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/row_packer.hpp"

namespace echobuf::cuda {

/// Rows stay open while the ring goes on, so records are copied to blocks of our own as
/// they are drawn, some together in one launch, and from there to the caller's leaves,
/// with padding, in another. Both are on the stream of use(); blocks are used again.
class DevicePackedRows {
 public:
  /// The layout of a block: rows begin at multiples of 16 bytes, so that words of them
  /// can be copied.
  struct Layout {
    std::vector<PlacedLeaf> leaves;
    std::vector<std::size_t> numbers;  // of each in the batch
    std::size_t segments;
    std::size_t positions;
    std::size_t mark_pitch;
    std::size_t bytes = 0;

    Layout(const BatchLayout& batch, const BufferOptions& options) {
      const RowsLayout rows(batch, options.lengths, 1);
      const auto add = [&](std::size_t pitch) {
        const std::size_t at = bytes;
        bytes += round_up(size_product(options.batch_size, pitch), kLeafAlignment);
        return at;
      };
      const auto pitch_of = [&](std::size_t value) {
        return round_up(size_product(options.lengths.row_length(), value), 16);
      };
      for (const RowsLayout::Leaf& leaf : rows.leaves()) {
        const std::size_t pitch = pitch_of(leaf.row_bytes);
        numbers.push_back(leaf.number);
        const std::uint64_t all = leaf.row_bytes | 8;
        leaves.push_back({add(pitch), pitch, leaf.row_bytes,
                          static_cast<std::uint32_t>(leaf.field),
                          static_cast<std::uint32_t>(all & (~all + 1))});
      }
      mark_pitch = pitch_of(sizeof(std::int32_t));
      segments = add(mark_pitch);
      positions = add(mark_pitch);
    }
  };

  /// A block, which goes back to where it came from.
  class Rows {
   public:
    Rows(DevicePackedRows& owner, std::unique_ptr<DeviceMemory> memory)
        : owner_(&owner), memory_(std::move(memory)) {}
    Rows(Rows&&) = default;
    Rows& operator=(Rows&&) = default;
    ~Rows() {
      if (memory_) owner_->idle_.push_back(std::move(memory_));
    }
    Address address() const { return memory_->get(); }

   private:
    DevicePackedRows* owner_;
    std::unique_ptr<DeviceMemory> memory_;
  };

  /// `records`: that are copied together at most; `blocks`: that are in use.
  DevicePackedRows(const SharedContext& context, const Staging& staging,
                   const BatchLayout& batch, const BufferOptions& options,
                   DrawOrder& order, const Staging::Window& window,
                   const Kernels& kernels, const std::vector<StageKernels>& stages,
                   std::uint64_t records, std::uint64_t blocks)
      : table_(*staging.table()),
        options_(options),
        window_(window),
        layout_(batch, options),
        transformed_(context, batch, options, records, stages),
        launch_(context, order, kernels,
                table_words(options, staging.table()->fields().size(), records)) {
    for (std::size_t i = 0; i < layout_.leaves.size(); ++i)
      if (!transformed_.makes(layout_.numbers[i])) copied_.push_back(layout_.leaves[i]);
    idle_.reserve(blocks);
    pending_.reserve(records);
  }

  static std::size_t table_words(const BufferOptions& options, std::size_t fields,
                                 std::uint64_t records) {
    const std::size_t placing = size_product(records, 5 + fields) + 2 +
                                DeviceTransformedRows::table_words(options, records);
    const std::size_t leaves = std::max(options.leaves.size(), options.fields.size());
    return std::max(placing, size_product(options.batch_size + 2, leaves + 4) + 8);
  }

  const DeviceContext& context() const { return *launch_.context(); }
  std::size_t leaves() const { return layout_.leaves.size(); }
  std::size_t device_bytes() const {
    return launch_.device_bytes() + transformed_.bytes() + made_ * layout_.bytes;
  }

  /// From now on work is enqueued on `stream`.
  void use(StreamHandle stream) { stream_ = stream; }

  /// Throws std::bad_alloc.
  Rows take() {
    if (!idle_.empty()) {
      Rows rows(*this, std::move(idle_.back()));
      idle_.pop_back();
      return rows;
    }
    try {
      Rows rows(*this, make_device_memory(launch_.context(), layout_.bytes));
      ++made_;
      return rows;
    } catch (const Error& error) {
      if (error.code() == kErrorOutOfMemory) throw std::bad_alloc();
      throw;
    }
  }

  /// The record of a slot is to go to a block, from its value `first` on.
  std::size_t copy(const Rows& rows, std::uint64_t slot, std::size_t first,
                   std::uint32_t segment, const Drawn& drawn) {
    const std::uint64_t length = options_.lengths.row_length();
    pending_.push_back({rows.address(), slot, first / length, first % length, segment,
                        drawn.draw, DrawnUse{drawn.record, drawn.echo, 0}});
    key_ = transform::transform_key(drawn.seed, drawn.epoch);
    return 0;
  }

  /// Enqueues the copies, of records below ring position `end`.
  void flush(std::uint64_t end) {
    if (pending_.empty()) return;
    launch_.table().begin();
    const std::size_t fields = table_.fields().size();
    std::uint64_t* word = launch_.table().add(pending_.size() * (5 + fields));
    PlaceMoves moves;
    moves.records = launch_.table().address(word);
    std::uint64_t longest = 0;
    for (const Pending& record : pending_) {
      const std::uint64_t length = table_.rows(record.slot, 0).count;
      longest = std::max(longest, length);
      *word++ = record.block;
      *word++ = record.row;
      *word++ = record.first;
      *word++ = length;
      *word++ = record.segment;
      for (std::size_t f = 0; f < fields; ++f)
        *word++ = window_.payload + table_.rows(record.slot, f).offset;
    }
    moves.segments = layout_.segments;
    moves.positions = layout_.positions;
    moves.mark_pitch = layout_.mark_pitch;
    moves.fields = static_cast<std::uint32_t>(fields);
    moves.pieces =
        static_cast<std::uint32_t>((longest + kPlacedPiece - 1) / kPlacedPiece);
    for (std::size_t i = 0; i < layout_.leaves.size(); ++i)
      if (transformed_.makes(layout_.numbers[i])) list(i);
    const std::uint64_t count = pending_.size();
    pending_.clear();
    launch_.place(moves, copied_, count, end, stream_,
                  [&] { transformed_.enqueue(key_, launch_, stream_); });
  }

  /// Copies the first `count` rows of a block to the caller's leaves, and pads them.
  void hand_out(const Rows& rows, const std::vector<RowPacker::Row>& packed,
                std::uint64_t count, const RowsTarget& target) {
    launch_.table().begin();
    const Tables tables = fill(launch_.table(), rows, packed, count);
    std::vector<RowsLeaf> leaves = leaves_of(target, tables);
    launch_.draw(leaves, 0, stream_);
  }

  /// Puts the copy of a whole batch into the graph that is being captured.
  void capture(const RowsTarget& target) const {
    const Tables tables{
        launch_.captured_table().begin_address() + 8 * RowsLaunch::kLive,
        options_.batch_size};
    std::vector<RowsLeaf> leaves = leaves_of(target, tables);
    launch_.capture(leaves, static_cast<StreamHandle>(target.stream));
  }

  /// Makes a block the one that captured copies copy, later on the stream of use().
  void send(const Rows& rows, const std::vector<RowPacker::Row>& packed) {
    DrawTable& table = launch_.captured_table();
    table.begin();
    std::fill_n(table.add(RowsLaunch::kLive), RowsLaunch::kLive, 1);
    fill(table, rows, packed, options_.batch_size);
    launch_.send_captured(0, stream_);
  }

  /// From now on captured copies on `stream` copy nothing.
  void erase(StreamHandle stream) { launch_.erase_captured(stream); }

 private:
  struct Pending {
    Address block;
    std::uint64_t slot;
    std::uint64_t row;
    std::uint64_t first;
    std::uint32_t segment;
    std::uint64_t draw;
    DrawnUse use;
  };

  /// Enters the records that are to go to a leaf that stages make.
  void list(std::size_t number) {
    const PlacedLeaf& leaf = layout_.leaves[number];
    examples_.clear();
    for (const Pending& record : pending_) {
      const RowsTable::Rows& rows = table_.rows(record.slot, leaf.field);
      examples_.push_back({{window_.payload + rows.offset, rows.count},
                           record.block + leaf.offset + record.row * leaf.pitch +
                               record.first * leaf.row,
                           record.draw,
                           0,
                           record.use});
    }
    transformed_.list(layout_.numbers[number], examples_, launch_.table());
  }

  /// The tables of so many rows in the device's memory, one behind another: their
  /// lengths, where these are, and the sources of each array.
  struct Tables {
    Address lengths;
    std::uint64_t count;

    Address cell() const { return lengths + 8 * round_up(count, 2); }
    Address sources(std::size_t array) const {
      return cell() + 8 * (2 + array * round_up(count, 2));
    }
  };

  /// An array of a block.
  struct Array {
    std::size_t offset;
    std::size_t pitch;
    std::size_t value;  // bytes
    const std::vector<std::byte>* pad;
  };

  std::vector<Array> arrays() const {
    static const std::vector<std::byte> kZeros;
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < layout_.leaves.size(); ++i) {
      const PlacedLeaf& leaf = layout_.leaves[i];
      const std::size_t number = layout_.numbers[i];
      arrays.push_back({leaf.offset, leaf.pitch, leaf.row,
                        transformed_.makes(number) ? &options_.leaves[number].pad
                                                   : &table_.fields()[leaf.field].pad});
    }
    for (const std::size_t offset : {layout_.segments, layout_.positions})
      arrays.push_back({offset, layout_.mark_pitch, sizeof(std::int32_t), &kZeros});
    return arrays;
  }

  /// Writes the next words of a table: of the first `count` rows of a block.
  Tables fill(DrawTable& table, const Rows& rows,
              const std::vector<RowPacker::Row>& packed, std::uint64_t count) const {
    const std::vector<Array> all = arrays();
    std::uint64_t* const words = table.add((1 + all.size()) * round_up(count, 2) + 2);
    const Tables tables{table.address(words), count};
    const auto at = [&](Address address) {
      return words + (address - tables.lengths) / 8;
    };
    for (std::uint64_t row = 0; row < count; ++row) words[row] = packed[row].used;
    *at(tables.cell()) = tables.lengths;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::uint64_t row = 0; row < count; ++row)
        at(tables.sources(i))[row] =
            rows.address() + all[i].offset + row * all[i].pitch;
    return tables;
  }

  std::vector<RowsLeaf> leaves_of(const RowsTarget& target,
                                  const Tables& tables) const {
    std::vector<std::byte*> places;
    for (const RowsTarget::Leaf& leaf : target.leaves) places.push_back(leaf.values);
    places.push_back(target.segments);
    places.push_back(target.positions);
    std::vector<RowsLeaf> leaves;
    const std::vector<Array> all = arrays();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t each = options_.lengths.row_length() * all[i].value;
      RowsLeaf leaf =
          rows_leaf_at(reinterpret_cast<Address>(places[i]), each * tables.count);
      leaf.sources = tables.sources(i);
      leaf.each = each;
      leaf.lengths = tables.lengths;
      leaf.row = all[i].value;
      leaf.pad = rows_padding(*all[i].pad, leaf.base);
      leaves.push_back(of_records(leaf, tables.count));
    }
    RowsLeaf of_lengths = rows_leaf_at(reinterpret_cast<Address>(target.lengths),
                                       tables.count * sizeof(std::int64_t));
    of_lengths.sources = tables.cell();
    of_lengths.each = of_lengths.bytes;
    of_lengths.row = sizeof(std::int64_t);
    leaves.push_back(of_records(of_lengths, 1));
    return leaves;
  }

  const RowsTable& table_;
  const BufferOptions& options_;
  const Staging::Window window_;
  const Layout layout_;
  std::vector<Pending> pending_;
  std::vector<std::unique_ptr<DeviceMemory>> idle_;
  std::size_t made_ = 0;  // blocks
  StreamHandle stream_ = nullptr;
  std::vector<PlacedLeaf> copied_;  // the leaves that no stages make
  Philox4x32Key key_{};             // of the epoch
  DeviceTransformedRows transformed_;
  std::vector<DeviceTransformedRows::Example> examples_;  // of one leaf
  RowsLaunch launch_;                                     // goes first: it waits
};

}  // namespace echobuf::cuda
