// The layout of a batch of rows of one length in a block of batch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

/// The values of each leaf, the ids of their examples, and the lengths of the rows,
/// each at a 64-byte boundary.
class RowsLayout {
 public:
  struct Leaf {
    std::size_t number;     // of the batch
    std::size_t field;      // of the fields of any length
    std::size_t offset;     // in the block
    std::size_t row_bytes;  // of one value
  };

  /// A batch of `rows`. Throws std::bad_alloc where it has more bytes than any memory.
  RowsLayout(const BatchLayout& batch, const LengthOptions& lengths,
             std::uint64_t rows) {
    const std::size_t values = size_product(rows, lengths.row_length());
    for (std::size_t number = 0; number < batch.leaves(); ++number) {
      const BatchLayout::Leaf& leaf = batch.all()[number];
      for (std::size_t f = 0; f < lengths.fields.size(); ++f)
        if (leaf.field == lengths.fields[f].field) {
          const std::size_t row =
              leaf.rows ? leaf.rows->bytes : lengths.fields[f].row_bytes;
          leaves_.push_back({number, f, add(size_product(values, row)), row});
        }
    }
    ids_.segments = add(size_product(values, sizeof(std::int32_t)));
    ids_.positions = add(size_product(values, sizeof(std::int32_t)));
    ids_.lengths = add(size_product(rows, sizeof(std::int64_t)));
  }

  const std::vector<Leaf>& leaves() const { return leaves_; }
  const RowIds& ids() const { return ids_; }
  /// Of the block.
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t add(std::size_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += round_up(bytes, kLeafAlignment);
    return at;
  }

  std::vector<Leaf> leaves_;
  RowIds ids_;
  std::size_t bytes_ = 0;
};

}  // namespace echobuf
