// Images whose numbers are moved as bytes, row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/transform/column_picks.hpp"
#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/image_sink.hpp"
#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/shuffles.hpp"

namespace echobuf::transform {

/// A rectangle of the result, and the pixel that it is filled with.
struct Patch {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t height = 0;
  std::int32_t width = 0;
  const std::byte* pixel = nullptr;

  bool has_row(std::int32_t y) const { return y >= top && y < top + height; }
  /// Rows from `y` on, `most` at most, that all are in it, or all are not.
  std::int32_t rows_alike(std::int32_t y, std::int32_t most) const {
    if (y < top) return std::min(most, top - y);
    return has_row(y) ? 1 : most;
  }
};

/// Carries out a raw stage.
class RawRows {
 public:
  /// Throws std::bad_alloc; nothing is allocated later.
  explicit RawRows(const Stage& stage)
      : stage_(stage),
        packed_(!is_planar(stage.source)),
        pixel_(std::size_t{stage.source.bytes} *
               static_cast<std::size_t>(stage.source.extent.channels)),
        piece_(packed_ ? pixel_ : stage.source.bytes),
        row_bytes_(static_cast<std::size_t>(stage.target.extent.width) * piece_),
        picks_(stage.target.extent.width, piece_),
        rows_(static_cast<std::size_t>(stage.target.extent.height)),
        columns_(static_cast<std::size_t>(stage.target.extent.width)),
        fill_(std::max(pixel_, sizeof(double))) {
    const bool merged = !packed_ && !is_planar(stage.target);
    line_.resize(row_bytes_ * (merged ? channels() : 1));
  }

  void move(const HostOps& ops, const std::byte* source, std::byte* target,
            ImageSink& sink, const Patch& patch = {}) {
    patch_ = patch;
    if (stage_.count > stage_.after) return pull_all(ops, source, target);
    const Extent& extent = stage_.target.extent;
    unmap_all(ops, 0, stage_.after, Axis::kRow, 0, extent.height, rows_.data());
    unmap_all(ops, 0, stage_.after, Axis::kColumn, 0, extent.width, columns_.data());
    picks_.find(columns_.data(), extent.width, stage_.source.extent.width);
    if (stage_.fill >= 0)
      for (std::int32_t c = 0; c < extent.channels; ++c)
        store_as(
            stage_.target.type,
            reinterpret_cast<std::uint64_t>(fill_.data()) + c * stage_.target.bytes,
            fill_of(ops, c));
    sink.begin(target);
    const bool planar = is_planar(stage_.target);
    if (packed_ && planar)
      split(source, sink);
    else if (packed_)
      copy(source, fill_.data(), patch_.pixel, sink.plane(0));
    else if (planar)
      for (std::int32_t c = 0; c < extent.channels; ++c)
        copy(source + stage_.source.offset(0, 0, c), fill_of_channel(c),
             patch_of_channel(c), sink.plane(c));
    else
      merge(source, sink);
    sink.end();
  }

 private:
  static constexpr std::size_t kLongRow = 2048;  // bytes: worth writing run by run

  std::size_t channels() const {
    return static_cast<std::size_t>(stage_.source.extent.channels);
  }
  const std::byte* fill_of_channel(std::int32_t c) const {
    return fill_.data() + static_cast<std::size_t>(c) * stage_.source.bytes;
  }
  const std::byte* patch_of_channel(std::int32_t c) const {
    if (patch_.height == 0) return nullptr;
    return patch_.pixel + static_cast<std::size_t>(c) * stage_.source.bytes;
  }
  /// Fills the columns of the patch in a row of pieces, which `with` is one of.
  void put_patch(const std::byte* with, std::size_t piece, std::byte* row) const {
    fill_pieces(with, piece, patch_.width,
                row + static_cast<std::size_t>(patch_.left) * piece);
  }
  const std::byte* row_of(const std::byte* image, std::int32_t y) const {
    return image + stage_.source.offset(y, 0, 0);
  }
  std::int32_t source_row(std::int32_t y) const {
    return rows_[static_cast<std::size_t>(y)];
  }

  /// Rows from `y` on, `most` at most, that lie next to each other on both sides.
  std::int32_t rows_at_once(std::int32_t y, std::int32_t most) const {
    const Extent& to = stage_.target.extent;
    most = patch_.rows_alike(y, most);
    if (!picks_.neighbours() || to.width != stage_.source.extent.width) return 1;
    most = std::min(most, to.height - y);
    std::int32_t count = 1;
    while (count < most && source_row(y + count) == source_row(y) + count) ++count;
    return count;
  }
  /// As many as fit into the room of a sink.
  std::int32_t most_rows() const {
    const std::size_t plane = row_bytes_ / (packed_ ? channels() : 1);
    return static_cast<std::int32_t>(ImageSink::kRoom / plane);
  }

  /// The pieces of a row of the result, picked to `line` if they must be.
  const std::byte* pieces(const std::byte* image, std::int32_t y, const std::byte* fill,
                          std::byte* line) const {
    const std::int32_t from = source_row(y);
    if (from == kOutside) {
      fill_pieces(fill, piece_, stage_.target.extent.width, line);
      return line;
    }
    const std::byte* const row = row_of(image, from);
    ask_for(row, row_bytes_);
    if (picks_.neighbours()) return picks_.first(row);
    picks_.pick(row, fill, line);
    return line;
  }

  /// Pieces that stay together.
  void copy(const std::byte* image, const std::byte* fill, const std::byte* patch,
            RowSink& sink) const {
    const std::int32_t height = stage_.target.extent.height;
    for (std::int32_t y = 0; y < height;) {
      if (patch_.has_row(y)) {
        std::byte* const line = sink.room();
        const std::byte* const from = pieces(image, y, fill, line);
        if (from != line) std::memcpy(line, from, row_bytes_);
        put_patch(patch, piece_, line);
        sink.wrote(row_bytes_);
        ++y;
      } else if (picks_.neighbours() && source_row(y) != kOutside) {
        const std::int32_t rows = rows_at_once(y, height);
        const std::byte* const from = picks_.first(row_of(image, source_row(y)));
        if (rows == 1) ask_for(from, row_bytes_);
        sink.write(from, row_bytes_ * static_cast<std::size_t>(rows));
        y += rows;
      } else if (picks_.long_runs() && row_bytes_ >= kLongRow &&
                 source_row(y) != kOutside) {
        const std::byte* const row = row_of(image, source_row(y));
        ask_for(row, row_bytes_);
        picks_.write(row, fill, sink);
        ++y;
      } else {
        std::byte* const line = sink.room();
        pieces(image, y, fill, line);
        sink.wrote(row_bytes_);
        ++y;
      }
    }
  }

  /// Pixels that are taken apart.
  void split(const std::byte* image, ImageSink& sink) {
    const Extent& extent = stage_.target.extent;
    for (std::int32_t y = 0; y < extent.height;) {
      const std::int32_t rows =
          source_row(y) == kOutside ? 1 : rows_at_once(y, most_rows());
      const std::byte* const from = pieces(image, y, fill_.data(), line_.data());
      const std::ptrdiff_t count = std::ptrdiff_t{rows} * extent.width;
      const auto bytes = static_cast<std::size_t>(count) * stage_.source.bytes;
      std::byte* const* const to = sink.room();
      split_pixels(extent.channels, stage_.source.bytes, from, count, to);
      if (patch_.has_row(y))
        for (std::int32_t c = 0; c < extent.channels; ++c)
          put_patch(patch_of_channel(c), stage_.source.bytes, to[c]);
      sink.wrote(bytes);
      y += rows;
    }
  }

  /// Planes that are put together.
  void merge(const std::byte* image, ImageSink& sink) {
    const Extent& extent = stage_.target.extent;
    for (std::int32_t y = 0; y < extent.height;) {
      const std::int32_t rows = source_row(y) == kOutside
                                    ? 1
                                    : rows_at_once(y, most_rows() / extent.channels);
      const std::byte* planes[kMostChannels];
      for (std::int32_t c = 0; c < extent.channels; ++c)
        planes[c] = pieces(image + stage_.source.offset(0, 0, c), y, fill_of_channel(c),
                           line_.data() + static_cast<std::size_t>(c) * row_bytes_);
      const std::ptrdiff_t count = std::ptrdiff_t{rows} * extent.width;
      const std::size_t bytes = static_cast<std::size_t>(count) * pixel_;
      RowSink& to = sink.plane(0);
      merge_pixels(extent.channels, stage_.source.bytes, planes, count, to.room());
      if (patch_.has_row(y)) put_patch(patch_.pixel, pixel_, to.room());
      to.wrote(bytes);
      y += rows;
    }
  }

  /// Pixel by pixel: tokens that are hidden.
  void pull_all(const HostOps& ops, const std::byte* source, std::byte* target) const {
    for (std::int32_t y = 0; y < stage_.target.extent.height; ++y)
      for (std::int32_t x = 0; x < stage_.target.extent.width; ++x)
        pull_raw(ops, reinterpret_cast<std::uint64_t>(source),
                 reinterpret_cast<std::uint64_t>(target), y, x);
  }

  const Stage& stage_;
  Patch patch_;
  bool packed_;            // pixels are in one piece in the source
  std::size_t pixel_;      // bytes
  std::size_t piece_;      // bytes that are picked as one
  std::size_t row_bytes_;  // pieces of a row of the result
  ColumnPicks picks_;
  std::vector<std::int32_t> rows_;  // of the source
  std::vector<std::int32_t> columns_;
  std::vector<std::byte> fill_;  // a pixel
  std::vector<std::byte> line_;
};

}  // namespace echobuf::transform
