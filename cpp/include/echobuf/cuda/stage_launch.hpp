// The layout of a stage over the blocks of its launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/transform/stage.hpp"
#include "echobuf/transform/tile.hpp"

namespace echobuf::cuda {

/// The tile that the kernel of a stage finds by itself.
inline transform::Tile tile_of(const transform::Stage& stage) {
  return transform::stage_tile(stage);
}

/// Bytes that a stage needs for one row of the batch, beside its source and target.
inline std::size_t sums_bytes(const transform::Stage& stage) {
  const std::size_t tiles = tile_of(stage).count();
  const auto frames = static_cast<std::size_t>(stage.frames);
  return 2 * frames * tiles *
         transform::statistic_bytes(transform::statistic_of(stage),
                                    stage.target.extent.channels);
}

}  // namespace echobuf::cuda
