// How a part of a pass is laid out over the blocks of a launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "echobuf/draw_kernel.hpp"
#include "echobuf/record.hpp"

namespace echobuf::cuda {

struct DrawLaunch {
  DrawArguments arguments;
  std::uint32_t blocks;
};

/// Words of a block: enough that finding its rows is little beside copying them.
inline constexpr std::uint64_t kWordsOfBlock = std::uint64_t{kDrawThreads} * 8;

/// Lays out the fields `from` ... `to`-1 of `count` > 0 records; what `arguments` says
/// of the pass and of the slots is there already. `leaves`: addresses on the device.
/// `rows`: of a record, where records are ragged.
inline DrawLaunch lay_out(DrawArguments arguments, const RecordLayout& record,
                          std::byte* const* leaves, std::size_t from, std::size_t to,
                          std::size_t rows = 0) {
  std::uint64_t words = 0;
  for (std::size_t f = from; f < to; ++f) {
    const Field& field = record.fields()[f];
    const auto leaf = reinterpret_cast<std::uint64_t>(leaves[f]);
    const std::size_t bytes = record.ragged() ? rows * field.row_bytes : field.bytes();
    words += words_of(leaf, bytes);
    arguments.field[f - from] = {leaf, bytes, field.offset, words,
                                 is_scalar(leaf, bytes)};
  }
  arguments.fields = static_cast<std::int32_t>(to - from);
  words = std::max<std::uint64_t>(words, 1);
  arguments.tile = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kWordsOfBlock / words, 1, kDrawTile));
  arguments.tile = std::min(arguments.tile, arguments.count);
  const std::uint64_t all = words * arguments.tile;
  arguments.pieces =
      static_cast<std::uint32_t>((all + kWordsOfBlock - 1) / kWordsOfBlock);
  arguments.piece = (all + arguments.pieces - 1) / arguments.pieces;
  const std::uint32_t tiles = (arguments.count - 1) / arguments.tile + 1;
  return {arguments, tiles * arguments.pieces};
}

}  // namespace echobuf::cuda
