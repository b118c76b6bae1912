#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/resample.hpp"
#include "echobuf/transform/words.hpp"

// Operations that move whole pixels: a pixel of the result is one of the image, or a
// fill. Rows and columns are mapped apart, from the result back to the image.

namespace echobuf::transform {

enum class Border : uint32_t { kFill, kEdge, kReflect, kSymmetric };

/// The index within `size` that a border puts at `index`.
ECHOBUF_HD inline int32_t border_index(Border border, int32_t index, int32_t size) {
  if (index >= 0 && index < size) return index;
  switch (border) {
    case Border::kFill:
      return kOutside;
    case Border::kReflect:
      index = index < 0 ? -index : 2 * size - 2 - index;
      break;
    case Border::kSymmetric:
      index = index < 0 ? -1 - index : 2 * size - 1 - index;
      break;
    case Border::kEdge:
      break;
  }
  return exact::most(0, exact::least(index, size - 1));
}

/// A window of an image with a border around it, anywhere or at a fixed place.
struct Crop {
  Extent in;
  int32_t height;  // of the window
  int32_t width;
  int32_t top;  // of its first place; negative where there is a border
  int32_t left;
  uint32_t tops;  // places that its top can have, from `top` on
  uint32_t lefts;
  Border border;
  uint32_t columns_first;  // chance is asked for the left before the top
  double fill[kMostChannels];

  ECHOBUF_MEMBERS(in, height, width, top, left, tops, lefts, border, columns_first,
                  fill)

  struct Draw {
    int32_t top;
    int32_t left;
  };

  ECHOBUF_HD Draw draw(Words words) const {
    const uint32_t first = words.word();
    const uint32_t second = words.word();
    const uint32_t down = words.place(columns_first != 0 ? second : first, tops);
    const uint32_t right = words.place(columns_first != 0 ? first : second, lefts);
    return {top + static_cast<int32_t>(down), left + static_cast<int32_t>(right)};
  }
  ECHOBUF_HD int32_t source(const Draw& d, Axis axis, int32_t i) const {
    return axis == Axis::kRow ? border_index(border, i + d.top, in.height)
                              : border_index(border, i + d.left, in.width);
  }
  ECHOBUF_HD Extent out() const { return {height, width, in.channels}; }
};

/// Mirrors rows or columns, with a probability.
struct Flip {
  Extent in;
  Axis axis;
  double p;

  ECHOBUF_MEMBERS(in, axis, p)

  struct Draw {
    uint32_t on;
  };

  ECHOBUF_HD Draw draw(Words words) const { return {words.either(p) ? 1u : 0u}; }
  ECHOBUF_HD int32_t source(const Draw& d, Axis which, int32_t i) const {
    if (which != axis || d.on == 0) return i;
    return (axis == Axis::kRow ? in.height : in.width) - 1 - i;
  }
  ECHOBUF_HD Extent out() const { return in; }
};

/// The index within `size` below the scaled index of one within `result`, or
/// (`centred`) below the scaled centre.
ECHOBUF_HD inline int32_t nearest_index(int32_t i, int32_t size, int32_t result,
                                        bool centred) {
  const float scale = static_cast<float>(size) / static_cast<float>(result);
  const float at =
      centred ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
  return exact::least(exact::floor_int(at), size - 1);
}

/// Resizes by taking the nearest pixel, see `nearest_index`.
struct Nearest {
  Extent in;
  int32_t height;
  int32_t width;
  uint32_t centred;

  ECHOBUF_MEMBERS(in, height, width, centred)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words) const { return {}; }
  ECHOBUF_HD int32_t source(const Draw&, Axis axis, int32_t i) const {
    const int32_t size = axis == Axis::kRow ? in.height : in.width;
    const int32_t result = axis == Axis::kRow ? height : width;
    return nearest_index(i, size, result, centred != 0);
  }
  ECHOBUF_HD Extent out() const { return {height, width, in.channels}; }
};

/// Resizes a window, which is that of a `Resample` with the same numbers, by taking the
/// nearest pixel: the mask of an image that the `Resample` made.
struct NearestWindow {
  Extent in;
  int32_t height;
  int32_t width;
  double scale[2];
  double ratio[2];

  ECHOBUF_MEMBERS(in, height, width, scale, ratio)

  using Draw = Resample::Draw;

  ECHOBUF_HD Draw draw(Words words) const {
    const Resample windows{
        in, height, width, 0, 1, {scale[0], scale[1]}, {ratio[0], ratio[1]}};
    return windows.draw(words);
  }
  ECHOBUF_HD int32_t source(const Draw& d, Axis axis, int32_t i) const {
    if (axis == Axis::kRow) return d.top + nearest_index(i, d.height, height, false);
    return d.left + nearest_index(i, d.width, width, false);
  }
  ECHOBUF_HD Extent out() const { return {height, width, in.channels}; }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_MAPS_OPERATIONS(X) \
  X(crop, Crop)                    \
  X(flip, Flip)                    \
  X(nearest, Nearest)              \
  X(nearest_window, NearestWindow)
