// Batches of records that differ in length, copied to memory of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/options.hpp"

namespace echobuf {

class RowsOut {
 public:
  /// Both must outlive it. Throws std::bad_alloc; nothing is allocated later but for
  /// sizes that do not fit.
  RowsOut(const BatchLayout& batch, const BufferOptions& options) : options_(options) {
    for (std::size_t i = 0; i < batch.leaves(); ++i)
      leaves_.push_back(leaf_of(batch.all()[i], i));
  }

  /// Returns whether the memory has room for a batch; says what that has, else.
  bool fits(const Batch& batch, RowsTarget& target) const {
    bool fit = target.leaves.size() == leaves_.size() && target.room >= batch.count;
    for (std::size_t i = 0; fit && i < leaves_.size(); ++i)
      fit = target.leaves[i].rows >= rows_of(batch, i);
    target.count = batch.count;
    if (fit) return true;
    target.needed.clear();
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      target.needed.push_back(rows_of(batch, i));
    return false;
  }

  /// Copies a batch that fits, and pads the rows that it leaves.
  void copy(const Batch& batch, const RowsTarget& target) const {
    const bool packs = options_.lengths.packs();
    const bool packed = options_.lengths.form == LengthOptions::Form::kPacked;
    const std::byte* const block = batch.block.data();
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const Leaf& leaf = leaves_[i];
      const RowsTarget::Leaf& to = target.leaves[i];
      const std::byte* const from = block + batch.places[i].values;
      if (!leaf.any_length || packs) {
        const std::uint64_t rows = leaf.any_length ? options_.lengths.row_length() : 1;
        copy_bytes(to.values, from, batch.count * rows * leaf.bytes);
        continue;
      }
      const std::size_t have = batch.places[i].rows * leaf.bytes;
      const std::size_t room = to.rows * leaf.bytes;
      const std::uint64_t pieces = packed ? 1 : batch.count;
      for (std::uint64_t piece = 0; piece < pieces; ++piece) {
        std::byte* const target_piece = to.values + piece * room;
        copy_bytes(target_piece, from + piece * have, have);
        fill_rows(target_piece + have, room - have, *leaf.pad);
      }
      copy_bytes(to.index, block + batch.places[i].index,
                 (batch.count + (packed ? 1 : 0)) * sizeof(std::int64_t));
    }
    if (!packs) return;
    const std::size_t marks =
        batch.count * options_.lengths.row_length() * sizeof(std::int32_t);
    copy_bytes(target.segments, block + batch.ids.segments, marks);
    copy_bytes(target.positions, block + batch.ids.positions, marks);
    copy_bytes(target.lengths, block + batch.ids.lengths,
               batch.count * sizeof(std::int64_t));
  }

 private:
  struct Leaf {
    bool any_length;
    std::size_t bytes;  // of a row; of a record, where all are of one length
    const std::vector<std::byte>* pad;
  };

  Leaf leaf_of(const BatchLayout::Leaf& leaf, std::size_t number) const {
    for (const RaggedField& field : options_.lengths.fields) {
      if (field.field != leaf.field) continue;
      if (!leaf.rows) return {true, field.row_bytes, &field.pad};
      return {!leaf.rows->windowed(), leaf.rows->bytes, &options_.leaves[number].pad};
    }
    return {false, leaf.bytes, nullptr};
  }

  std::uint64_t rows_of(const Batch& batch, std::size_t leaf) const {
    return leaves_[leaf].any_length ? batch.places[leaf].rows : 0;
  }

  static void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  const BufferOptions& options_;
  std::vector<Leaf> leaves_;
};

}  // namespace echobuf
