// Drawing records of a pass out of the slots into the leaves of a batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/batch_layout.hpp"
#include "echobuf/copy.hpp"
#include "echobuf/permutation.hpp"
#include "echobuf/permutation_range.hpp"
#include "echobuf/record.hpp"

namespace echobuf {

/// The slots as one array, and where in it the window of a pass begins.
struct SlotView {
  const std::byte* slots;
  std::uint64_t capacity;
  std::uint64_t first;  // slot of the window's first record

  std::uint64_t slot(std::uint32_t record) const {
    const std::uint64_t slot = first + record;
    return slot < capacity ? slot : slot - capacity;
  }
};

namespace detail {

inline constexpr std::size_t kLine = 64;

/// Copies `bytes`, a multiple of 16 and small, in words that need no loop per byte.
inline void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
}

inline void copy_field(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 0:
      return;
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      if (bytes % 16 == 0 && bytes <= 256)
        copy_words(to, from, bytes);
      else
        std::memcpy(to, from, bytes);
  }
}

inline void prefetch_record(const std::byte* record, std::size_t bytes) {
  // The hardware follows a stream by itself after its first lines.
  const std::size_t most = std::min<std::size_t>(bytes, 8 * kLine);
  for (std::size_t i = 0; i < most; i += kLine) prefetch_for_read(record + i);
}

}  // namespace detail

/// How far ahead records are asked for: far enough to hide a miss behind small copies.
inline std::size_t prefetch_distance(std::size_t stride) {
  return stride >= 4096 ? 1 : stride >= 512 ? 4 : 16;
}

/// A field that a leaf of the batch is a copy of.
struct CopiedField {
  std::size_t offset;  // in the slot
  std::size_t bytes;   // of a row of the batch
  std::size_t leaf;
};

inline std::vector<CopiedField> copied_fields(const RecordLayout& record,
                                              const BatchLayout& batch) {
  std::vector<CopiedField> fields;
  for (std::size_t i = 0; i < batch.leaves(); ++i) {
    const BatchLayout::Leaf& leaf = batch.all()[i];
    if (!leaf.plan)
      fields.push_back({record.fields()[leaf.field].offset, leaf.bytes, i});
  }
  return fields;
}

/// Copies `fields` of `count` records, those at `order`, into `leaves`, from row `row`
/// on.
inline void gather_records(const std::vector<CopiedField>& fields, std::size_t stride,
                           const SlotView& view, const std::uint32_t* order,
                           std::size_t count, std::byte* const* leaves, std::size_t row,
                           bool stream) {
  const RowCopy large = stream ? streaming_copy() : nullptr;
  const std::size_t ahead = prefetch_distance(stride);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + ahead < count)
      detail::prefetch_record(view.slots + view.slot(order[i + ahead]) * stride,
                              stride);
    const std::byte* record = view.slots + view.slot(order[i]) * stride;
    for (const CopiedField& field : fields) {
      std::byte* to = leaves[field.leaf] + (row + i) * field.bytes;
      if (large && field.bytes >= kStreamRow)
        large(to, record + field.offset, field.bytes);
      else
        detail::copy_field(to, record + field.offset, field.bytes);
    }
  }
}

}  // namespace echobuf
