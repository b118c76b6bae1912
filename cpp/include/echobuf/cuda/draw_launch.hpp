// The layout of the rows of a batch over the blocks of a launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

template <class Layout>
struct Spread {
  Layout layout;
  std::uint32_t blocks;
};
using DrawLaunch = Spread<DrawLayout>;

/// Words of a block at most: enough that finding its rows is little beside copying.
inline constexpr std::uint64_t kWordsOfBlock = std::uint64_t{kDrawThreads} * 8;

namespace detail {

inline std::uint64_t quotient_up(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Deals out the words of a tile to about so many pieces, each a whole number of rounds
/// of a block's threads.
inline void cut(DrawKind& kind, std::uint32_t tile, std::uint64_t pieces) {
  const std::uint64_t words = quotient_up(kind.words * tile, pieces);
  kind.piece = std::max<std::uint64_t>(quotient_up(words, kDrawThreads), 1);
  kind.piece *= kDrawThreads;
  if (tile > 1 && kind.words > 0)
    kind.reciprocal =
        static_cast<std::uint32_t>(quotient_up(std::uint64_t{1} << 31, kind.words));
}

}  // namespace detail

/// Deals out the rows and fields that `layout` has to blocks: to `least_blocks` of them
/// if there are as many rows, or words for them.
template <class Layout>
Spread<Layout> spread(Layout layout, std::uint32_t least_blocks) {
  const std::uint64_t words =
      std::max<std::uint64_t>(layout.whole.words + layout.other.words, 1);
  const std::uint64_t some = layout.count / std::max(least_blocks, 1u);
  layout.tile = static_cast<std::uint32_t>(
      std::min({std::clamp<std::uint64_t>(kWordsOfBlock / words, 1, kDrawTile),
                std::max<std::uint64_t>(some, 1), std::uint64_t{layout.count}}));
  const std::uint32_t tiles = (layout.count - 1) / layout.tile + 1;
  const std::uint64_t most = std::max(layout.whole.words, layout.other.words);
  const std::uint64_t pieces =
      std::max({detail::quotient_up(most * layout.tile, kWordsOfBlock),
                detail::quotient_up(least_blocks, tiles), std::uint64_t{1}});
  std::uint64_t needed = 1;          // pieces
  std::uint64_t busy = layout.tile;  // threads
  for (DrawKind* kind : {&layout.whole, &layout.other}) {
    detail::cut(*kind, layout.tile, pieces);
    const std::uint64_t all = kind->words * layout.tile;
    needed = std::max(needed, detail::quotient_up(all, kind->piece));
    const std::uint64_t at_once = kind == &layout.whole ? kDrawAtOnce : 1;
    busy = std::max(busy, std::min(all, kind->piece) / at_once);
  }
  constexpr std::uint64_t kWarp = 32;
  busy = detail::quotient_up(busy, kWarp) * kWarp;
  layout.threads =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(busy, kDrawThreads));
  layout.pieces = static_cast<std::uint32_t>(needed);
  return {layout, tiles * layout.pieces};
}

/// Lays out `fields` of `count` > 0 records for the rows from `row` on. `leaves`:
/// addresses on the device. `rows`: of a whole batch.
inline DrawLaunch lay_out(const RecordLayout& record, std::uint64_t row,
                          std::uint64_t count, std::byte* const* leaves,
                          std::span<const CopiedField> fields, std::size_t rows,
                          std::uint32_t least_blocks) {
  DrawLayout layout;
  layout.stride = record.stride();
  layout.row = static_cast<std::uint32_t>(row);
  layout.count = static_cast<std::uint32_t>(count);
  std::int32_t next = 0;
  for (DrawKind* kind : {&layout.whole, &layout.other}) {
    kind->begin = next;
    for (const CopiedField& field : fields) {
      const auto leaf = reinterpret_cast<std::uint64_t>(leaves[field.leaf]);
      const std::size_t bytes = (record.in_batches() ? rows : 1) * field.bytes;
      if (is_whole(leaf, bytes) != (kind == &layout.whole)) continue;
      kind->words += words_of(leaf, bytes);
      layout.field[next++] = {leaf, bytes, field.offset, kind->words,
                              is_scalar(leaf, bytes)};
    }
  }
  return spread(layout, least_blocks);
}

/// Lays out whole records, slot by slot, for the rows of `slots` from `row` on; `mix`:
/// for partners, the operation that chooses them.
inline DrawLaunch lay_out_slots(const RecordLayout& record, std::uint64_t row,
                                std::uint64_t count, std::uint64_t slots,
                                std::uint32_t mix, std::uint32_t least_blocks) {
  DrawLayout layout;
  layout.stride = record.stride();
  layout.row = static_cast<std::uint32_t>(row);
  layout.count = static_cast<std::uint32_t>(count);
  layout.mix = mix;
  layout.whole.words = record.stride() / 16;
  layout.field[0] = {slots, record.stride(), 0, layout.whole.words, false};
  return spread(layout, least_blocks);
}

}  // namespace echobuf::cuda
