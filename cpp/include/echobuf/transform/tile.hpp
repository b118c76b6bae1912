#pragma once

#include "echobuf/transform/stage.hpp"

// The distribution of a stage's result over blocks and their threads. Host
// and kernel find the same by themselves.

namespace echobuf::transform {

inline constexpr uint32_t kStageThreads = 256;

/// Weights that a block keeps, of rows and columns together.
inline constexpr int32_t kTileWeights = 2560;
inline constexpr int32_t kTileEdges = 256;  // rows and columns that have weights

/// A block has `height` x `width` pixels of the result of one row of the batch.
struct Tile {
  int32_t height;
  int32_t width;
  int32_t down;  // of an image
  int32_t across;
  int32_t columns;   // threads beside each other; a power of two
  int32_t row_taps;  // weights of a row; 0: none are kept
  int32_t column_taps;

  ECHOBUF_HD constexpr uint32_t count() const {
    return static_cast<uint32_t>(down) * static_cast<uint32_t>(across);
  }
  /// Threads above each other.
  ECHOBUF_HD constexpr int32_t rows() const {
    return static_cast<int32_t>(kStageThreads) / columns;
  }
};

namespace detail {

ECHOBUF_HD constexpr int32_t pieces(int32_t size, int32_t piece) {
  return (size + piece - 1) / piece;
}

ECHOBUF_HD constexpr Tile finish(Tile tile, const Extent& extent) {
  tile.down = pieces(extent.height, tile.height);
  tile.across = pieces(extent.width, tile.width);
  const int32_t most = tile.height >= 8 ? 32 : 256;
  tile.columns = 1;
  while (tile.columns < tile.width && tile.columns < most) tile.columns *= 2;
  return tile;
}

}  // namespace detail

/// Of a stage that takes pixels as they are: enough of them that finding the record and
/// asking chance is little beside it.
ECHOBUF_HD constexpr Tile plain_tile(const Extent& extent) {
  constexpr int32_t kPixels = 8192;
  const int32_t width = exact::least(extent.width, kPixels);
  const int32_t height = exact::least(extent.height, kPixels / width);
  return detail::finish({height, width, 0, 0, 0, 0, 0}, extent);
}

/// Of a stage that resamples: small enough that the weights have room.
ECHOBUF_HD constexpr Tile resampling_tile(const Extent& extent, const Resample& op) {
  constexpr int32_t kEdge = kTileEdges / 2;
  const int32_t row_taps = op.most_taps(Axis::kRow);
  const int32_t column_taps = op.most_taps(Axis::kColumn);
  if (row_taps + column_taps > kTileWeights) return plain_tile(extent);
  int32_t height = exact::least(extent.height, kEdge / 4);
  int32_t width = exact::least(extent.width, kEdge);
  while (height * row_taps + width * column_taps > kTileWeights) {
    if (width * column_taps > height * row_taps)
      width = (width + 1) / 2;
    else
      height = (height + 1) / 2;
  }
  return detail::finish({height, width, 0, 0, 0, row_taps, column_taps}, extent);
}

/// Of a stage that blurs: its weights are those of distances, the same for all rows and
/// columns, and a pixel is much work.
ECHOBUF_HD constexpr Tile blurring_tile(const Extent& extent) {
  constexpr int32_t kHeight = 16, kWidth = 64;
  static_assert(2 * (Blur::kMostRadius + 1) <= static_cast<int32_t>(kStageThreads));
  return detail::finish({exact::least(extent.height, kHeight),
                         exact::least(extent.width, kWidth), 0, 0, 0, 1, 1},
                        extent);
}

/// Of any stage, on the host.
inline Tile stage_tile(const Stage& stage) {
  if (stage.core == Core::kResample)
    return resampling_tile(stage.target.extent, stage.ops[stage.before].as<Resample>());
  if (stage.core == Core::kBlur) return blurring_tile(stage.target.extent);
  return plain_tile(stage.target.extent);
}

}  // namespace echobuf::transform
