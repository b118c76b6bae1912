// Images on their way to memory: pixels in one piece, or planes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/row_sink.hpp"

namespace echobuf::transform {

/// True if each channel lies in a plane.
inline bool is_planar(const Layout& layout) {
  return layout.extent.channels > 1 && layout.column == 1;
}

/// The planes of an image, or its pixels as the only one.
class ImageSink {
 public:
  /// Bytes that each plane has room for at once, or a row if that is more.
  static constexpr std::size_t kRoom = 2048;

  /// `past`: the copy past the caches, or null. Throws std::bad_alloc.
  ImageSink(const Layout& layout, RowCopy past) : layout_(layout) {
    const std::int32_t planes = is_planar(layout) ? layout.extent.channels : 1;
    const std::size_t row = static_cast<std::size_t>(layout.extent.width) *
                            static_cast<std::size_t>(layout.column) * layout.bytes;
    for (std::int32_t c = 0; c < planes; ++c)
      planes_.emplace_back(row > kRoom ? row : kRoom, past);
  }

  RowSink& plane(std::int32_t c) { return planes_[static_cast<std::size_t>(c)]; }

  void begin(std::byte* target) {
    for (std::size_t c = 0; c < planes_.size(); ++c)
      planes_[c].begin(target + layout_.offset(0, 0, static_cast<std::int32_t>(c)));
  }
  void end() {
    for (RowSink& plane : planes_) plane.end();
  }

  /// The places of the next bytes of each plane.
  std::byte* const* room() {
    for (std::size_t c = 0; c < planes_.size(); ++c) rooms_[c] = planes_[c].room();
    return rooms_;
  }
  void wrote(std::size_t bytes) {
    for (RowSink& plane : planes_) plane.wrote(bytes);
  }

 private:
  const Layout& layout_;
  std::vector<RowSink> planes_;
  std::byte* rooms_[kMostChannels] = {};
};

}  // namespace echobuf::transform
