// Batches of rows of one length in host memory, that records are packed into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/rows_layout.hpp"
#include "echobuf/draw/rows_maker.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/row_packer.hpp"
#include "echobuf/store/payload.hpp"

namespace echobuf {

class HostPackedRows {
 public:
  using Rows = Block;

  HostPackedRows(const BufferOptions& options, const Payload& payload,
                 const BatchLayout& batch, std::shared_ptr<BatchPool> pool)
      : options_(options),
        payload_(payload),
        pool_(std::move(pool)),
        layout_(batch, options.lengths, options.batch_size) {
    for (const RowsLayout::Leaf& leaf : layout_.leaves()) {
      const RowsPlan* const plan = batch.all()[leaf.number].rows;
      makers_.emplace_back();
      if (plan)
        makers_.back().emplace(*plan, payload.table().fields()[leaf.field].pad, false);
    }
  }

  /// Throws std::bad_alloc.
  Rows take() { return pool_->take(); }

  /// Copies the record of a slot to a block, from its value `first` on; returns the
  /// bytes that were written.
  std::size_t copy(const Rows& rows, std::uint64_t slot, std::size_t first,
                   std::uint32_t segment, const Drawn& drawn) {
    const std::uint64_t length = payload_.table().rows(slot, 0).count;
    std::byte* const block = rows.data();
    std::size_t written = 0;
    for (std::size_t i = 0; i < makers_.size(); ++i) {
      const RowsLayout::Leaf& leaf = layout_.leaves()[i];
      const RowsTable::Rows& of = payload_.table().rows(slot, leaf.field);
      const std::size_t bytes = leaf.row_bytes;
      const std::byte* const from = payload_.data() + of.offset;
      std::byte* const to = block + leaf.offset + first * bytes;
      if (makers_[i])
        makers_[i]->make(drawn, {from, length * makers_[i]->plan().row_bytes}, to);
      else if (length > 0)
        std::memcpy(to, from, length * bytes);
      written += length * bytes;
    }
    auto* const segments = ids(block, layout_.ids().segments);
    auto* const positions = ids(block, layout_.ids().positions);
    for (std::uint64_t i = 0; i < length; ++i) {
      segments[first + i] = static_cast<std::int32_t>(segment);
      positions[first + i] = static_cast<std::int32_t>(i);
    }
    return written;
  }

  /// Copies are done at once.
  static void flush(std::uint64_t) {}

  /// Pads the first `count` rows of a block, and makes them a batch.
  Batch finish(Rows rows, const std::vector<RowPacker::Row>& packed,
               std::uint64_t count) const {
    const std::uint64_t length = options_.lengths.row_length();
    std::vector<LeafPlace> places;
    for (const RowsLayout::Leaf& leaf : layout_.leaves())
      places.push_back({leaf.offset, length, 0});
    std::byte* const block = rows.data();
    auto* const lengths =
        reinterpret_cast<std::int64_t*>(block + layout_.ids().lengths);
    for (std::uint64_t row = 0; row < count; ++row) {
      const std::uint64_t used = packed[row].used;
      lengths[row] = static_cast<std::int64_t>(used);
      const std::size_t first = row * length + used;
      const std::size_t left = length - used;
      for (std::size_t i = 0; i < makers_.size(); ++i) {
        const RowsLayout::Leaf& leaf = layout_.leaves()[i];
        fill_rows(block + leaf.offset + first * leaf.row_bytes, left * leaf.row_bytes,
                  makers_[i] ? options_.leaves[leaf.number].pad
                             : payload_.table().fields()[leaf.field].pad);
      }
      for (const std::size_t of : {layout_.ids().segments, layout_.ids().positions})
        std::memset(ids(block, of) + first, 0, left * sizeof(std::int32_t));
    }
    return {std::move(rows), count, std::move(places), layout_.ids()};
  }

 private:
  static std::int32_t* ids(std::byte* block, std::size_t offset) {
    return reinterpret_cast<std::int32_t*>(block + offset);
  }

  const BufferOptions& options_;
  const Payload& payload_;
  const std::shared_ptr<BatchPool> pool_;
  const RowsLayout layout_;
  std::vector<std::optional<RowsMaker>> makers_;  // of its leaves that are no copies
};

}  // namespace echobuf
