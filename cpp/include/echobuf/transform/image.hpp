#pragma once

#include "echobuf/platform.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/number.hpp"

// A leaf as operations see it: an image of rows, columns and channels. A signal is
// an image of one row, a table [T, F] one of T rows; a number has one pixel.

namespace echobuf::transform {

/// Channels that a pixel has at most.
inline constexpr int kMostChannels = 16;

struct Extent {
  int32_t height;
  int32_t width;
  int32_t channels;

  ECHOBUF_MEMBERS(height, width, channels)

  ECHOBUF_HD constexpr int64_t pixels() const { return int64_t{height} * width; }
};

/// The place of a pixel in the input image of an operation.
struct Place {
  int32_t y;
  int32_t x;
  Extent extent;

  /// The number of an element of the pixel, in the order rows, columns, channels.
  ECHOBUF_HD constexpr uint32_t element(int channel) const {
    return (static_cast<uint32_t>(y) * static_cast<uint32_t>(extent.width) +
            static_cast<uint32_t>(x)) *
               static_cast<uint32_t>(extent.channels) +
           static_cast<uint32_t>(channel);
  }
};

/// The layout of an image in memory; strides in elements.
struct Layout {
  Extent extent;
  NumberType type;
  uint32_t bytes;  // of an element
  int64_t row;     // stride from row to row
  int64_t column;
  int64_t channel;

  ECHOBUF_MEMBERS(extent, type, bytes, row, column, channel)

  ECHOBUF_HD constexpr int64_t offset(int32_t y, int32_t x, int32_t c) const {
    return (y * row + x * column + c * channel) * bytes;
  }
  ECHOBUF_HD constexpr int64_t size() const {
    return extent.pixels() * extent.channels * bytes;
  }
};

/// A place outside of an image, where a fill is.
inline constexpr int32_t kOutside = -1;

enum class Axis { kRow, kColumn };

}  // namespace echobuf::transform
