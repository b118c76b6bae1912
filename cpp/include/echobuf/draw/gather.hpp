// Drawing records of a pass out of the slots into the leaves of a batch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/side_by_side.hpp"
#include "echobuf/leaf_options.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/slots.hpp"

namespace echobuf {

namespace detail {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kLargeRow = 1024;

inline void prefetch_record(const std::byte* record, std::size_t bytes) {
  // The hardware follows a stream by itself after its first lines.
  const std::size_t most = std::min<std::size_t>(bytes, 16 * kLine);
  for (std::size_t i = 0; i < most; i += kLine) prefetch_for_read(record + i);
}

}  // namespace detail

/// How many records ahead are asked for: 8 KB, or what hides a miss behind the copies
/// of small ones.
inline std::size_t prefetch_distance(std::size_t stride) {
  return std::clamp<std::size_t>((std::size_t{8} << 10) / stride, 1, 24);
}

namespace detail {

/// Copies `bytes` from each of `count` records to consecutive rows.
using CopyRows = void (*)(std::byte* to, const std::byte* const* records,
                          std::size_t offset, std::size_t bytes, std::size_t count);

template <std::size_t kBytes>
void copy_rows_of(std::byte* to, const std::byte* const* records, std::size_t offset,
                  std::size_t, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * kBytes, records[i] + offset, kBytes);
}

inline void copy_rows(std::byte* to, const std::byte* const* records,
                      std::size_t offset, std::size_t bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    copy_field(to + i * bytes, records[i] + offset, bytes);
}

inline void copy_large_rows(std::byte* to, const std::byte* const* records,
                            std::size_t offset, std::size_t bytes, std::size_t count) {
  const RowCopy copy = cold_copy();
  for (std::size_t i = 0; i < count; ++i)
    copy(to + i * bytes, records[i] + offset, bytes);
}

/// The fastest for rows of `bytes`: of the commonest sizes, with no choice per row.
inline CopyRows copy_rows_for(std::size_t bytes) {
  switch (bytes) {
    case 1:
      return copy_rows_of<1>;
    case 2:
      return copy_rows_of<2>;
    case 4:
      return copy_rows_of<4>;
    case 8:
      return copy_rows_of<8>;
    case 16:
      return copy_rows_of<16>;
    case 32:
      return copy_rows_of<32>;
    case 64:
      return copy_rows_of<64>;
    case 128:
      return copy_rows_of<128>;
    default:
      return bytes >= kLargeRow ? copy_large_rows : copy_rows;
  }
}

}  // namespace detail

/// A field that a leaf of the batch is a copy of.
struct CopiedField {
  std::size_t offset;  // in the slot
  std::size_t bytes;   // of a row of the batch
  std::size_t leaf;
  detail::CopyRows copy_rows = detail::copy_rows_for(bytes);
};

inline std::vector<CopiedField> copied_fields(const RecordLayout& record,
                                              const BatchLayout& batch) {
  std::vector<CopiedField> fields;
  for (std::size_t i = 0; i < batch.leaves(); ++i) {
    const BatchLayout::Leaf& leaf = batch.all()[i];
    if (!leaf.plan && leaf.bytes > 0 && leaf.info == InfoLeaf::kNone)
      fields.push_back({record.fields()[leaf.field].offset, leaf.bytes, i});
  }
  return fields;
}

namespace detail {

/// The last field of a record that is copied as a large row; null if there is none.
inline const CopiedField* last_large(const std::vector<CopiedField>& fields) {
  const auto found =
      std::find_if(fields.rbegin(), fields.rend(),
                   [](const CopiedField& field) { return field.bytes >= kLargeRow; });
  return found == fields.rend() ? nullptr : &*found;
}

/// Copies the fields of a few records at a time, while the next ones come.
inline void gather_large_records(const std::vector<CopiedField>& fields,
                                 const CopiedField* last,
                                 const std::byte* const* records, std::size_t count,
                                 std::byte* const* leaves, std::size_t row,
                                 bool stream) {
  const CopySideBySide copy = side_by_side(stream);
  RowsSideBySide rows;
  constexpr std::size_t some = RowsSideBySide::kMost;
  for (std::size_t begin = 0; begin < count; begin += some) {
    rows.count = std::min(some, count - begin);
    for (const CopiedField& field : fields) {
      rows.to = leaves[field.leaf] + (row + begin) * field.bytes;
      rows.bytes = field.bytes;
      if (field.bytes < kLargeRow) {
        field.copy_rows(rows.to, records + begin, field.offset, field.bytes,
                        rows.count);
        continue;
      }
      for (std::size_t k = 0; k < rows.count; ++k) {
        const std::size_t i = begin + k;
        rows.from[k] = records[i] + field.offset;
        rows.next[k] = &field == last && i + some < count ? records[i + some]
                                                          : rows.from[k] + field.bytes;
      }
      copy(rows);
    }
  }
}

}  // namespace detail

/// At most so many records are gathered at a time.
inline constexpr std::size_t kGatherChunk = 256;

/// Copies `fields` of up to kGatherChunk records, those at `order`, into `leaves`, from
/// row `row` on: a few records at a time, field by field, while the next few come.
inline void gather_records(const std::vector<CopiedField>& fields, std::size_t stride,
                           const SlotView& view, const std::uint32_t* order,
                           std::size_t count, std::byte* const* leaves, std::size_t row,
                           bool stream) {
  const std::byte* records[kGatherChunk];
  for (std::size_t i = 0; i < count; ++i)
    records[i] = view.slots + view.slot(order[i]) * stride;
  const CopiedField* const last =
      stride >= kSideBySideFrom ? detail::last_large(fields) : nullptr;
  if (last) {
    detail::gather_large_records(fields, last, records, count, leaves, row, stream);
    return;
  }
  const RowCopy large = stream ? streaming_copy() : nullptr;
  const std::size_t ahead = prefetch_distance(stride);
  const std::size_t block = ahead;
  for (std::size_t i = 0; i < std::min(ahead, count); ++i)
    detail::prefetch_record(records[i], stride);
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t some = std::min(block, count - begin);
    for (std::size_t i = begin + ahead; i < std::min(begin + ahead + block, count); ++i)
      detail::prefetch_record(records[i], stride);
    for (const CopiedField& field : fields) {
      std::byte* to = leaves[field.leaf] + (row + begin) * field.bytes;
      if (large && field.bytes >= kStreamRow) {
        for (std::size_t i = 0; i < some; ++i)
          large(to + i * field.bytes, records[begin + i] + field.offset, field.bytes);
      } else {
        field.copy_rows(to, records + begin, field.offset, field.bytes, some);
      }
    }
  }
}

/// Copies `fields` of the whole batch in a slot into `leaves`. Returns the number of
/// its rows.
inline std::size_t gather_whole_batch(const std::vector<CopiedField>& fields,
                                      const Slots& store, std::uint64_t slot,
                                      std::byte* const* leaves) {
  const std::size_t rows = store.length(slot);
  for (const CopiedField& field : fields) {
    const std::size_t bytes = rows * field.bytes;
    const std::byte* const from = store.record(slot) + field.offset;
    if (bytes >= kStreamFrom) {
      streaming_copy()(leaves[field.leaf], from, bytes);
      finish_streaming();
    } else {
      std::memcpy(leaves[field.leaf], from, bytes);
    }
  }
  return rows;
}

}  // namespace echobuf
