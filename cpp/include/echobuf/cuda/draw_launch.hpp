// How rows of a batch are laid out over the blocks of a launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "echobuf/draw_kernel.hpp"
#include "echobuf/gather.hpp"
#include "echobuf/record.hpp"

namespace echobuf::cuda {

struct DrawLaunch {
  DrawLayout layout;
  std::uint32_t blocks;
};

/// Words of a block: enough that finding its rows is little beside copying them.
inline constexpr std::uint64_t kWordsOfBlock = std::uint64_t{kDrawThreads} * 8;

/// Deals out the rows and fields that `layout` has to blocks.
inline DrawLaunch spread(DrawLayout layout) {
  const std::uint64_t words =
      layout.fields > 0 ? std::max<std::uint64_t>(words_of(layout), 1) : 1;
  layout.tile = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kWordsOfBlock / words, 1, kDrawTile));
  layout.tile = std::min(layout.tile, layout.count);
  const std::uint64_t all = words * layout.tile;
  layout.pieces = static_cast<std::uint32_t>((all + kWordsOfBlock - 1) / kWordsOfBlock);
  layout.piece = (all + layout.pieces - 1) / layout.pieces;
  const std::uint32_t tiles = (layout.count - 1) / layout.tile + 1;
  return {layout, tiles * layout.pieces};
}

/// Lays out `fields` of `count` > 0 records for the rows from `row` on. `leaves`:
/// addresses on the device. `rows`: of a record, where records are ragged.
inline DrawLaunch lay_out(const RecordLayout& record, std::uint64_t row,
                          std::uint64_t count, std::byte* const* leaves,
                          std::span<const CopiedField> fields, std::size_t rows = 0) {
  DrawLayout layout;
  layout.stride = record.stride();
  layout.row = static_cast<std::uint32_t>(row);
  layout.count = static_cast<std::uint32_t>(count);
  layout.fields = static_cast<std::int32_t>(fields.size());
  std::uint64_t words = 0;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto leaf = reinterpret_cast<std::uint64_t>(leaves[fields[f].leaf]);
    const std::size_t bytes = (record.ragged() ? rows : 1) * fields[f].bytes;
    words += words_of(leaf, bytes);
    layout.field[f] = {leaf, bytes, fields[f].offset, words, is_scalar(leaf, bytes)};
  }
  return spread(layout);
}

/// Lays out whole records, slot by slot, for the rows of `slots` from `row` on; `mix`:
/// for partners, the operation that chooses them.
inline DrawLaunch lay_out_slots(const RecordLayout& record, std::uint64_t row,
                                std::uint64_t count, std::uint64_t slots,
                                std::uint32_t mix = 0) {
  DrawLayout layout;
  layout.stride = record.stride();
  layout.row = static_cast<std::uint32_t>(row);
  layout.count = static_cast<std::uint32_t>(count);
  layout.fields = 1;
  layout.mix = mix;
  layout.field[0] = {slots, record.stride(), 0, words_of(slots, record.stride()),
                     false};
  return spread(layout);
}

}  // namespace echobuf::cuda
