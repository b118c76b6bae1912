// Images whose numbers are moved as bytes: whole runs of them, where they stay
// neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/pull.hpp"

namespace echobuf::transform {

/// Carries out a raw stage.
inline void move_image(const HostOps& ops, const std::byte* source, std::byte* target) {
  const Stage& stage = ops.stage();
  const Layout& from = stage.source;
  const Layout& to = stage.target;
  const bool plain = stage.count == stage.after;
  // A pixel is in one piece where its channels follow each other on both sides.
  const bool pieces =
      from.extent.channels == 1 || (from.channel == 1 && to.channel == 1);
  const std::int64_t piece = std::int64_t{from.bytes} * from.extent.channels;
  const bool dense =
      pieces && from.column * from.bytes == piece && to.column * to.bytes == piece;
  for (std::int32_t y = 0; y < to.extent.height; ++y) {
    const std::int32_t sy = unmap(ops, 0, stage.after, Axis::kRow, y);
    for (std::int32_t x = 0; x < to.extent.width;) {
      std::int32_t count = 1;
      const std::int32_t sx = unmap(ops, 0, stage.after, Axis::kColumn, x);
      if (plain && dense && sy != kOutside && sx != kOutside) {
        while (x + count < to.extent.width &&
               unmap(ops, 0, stage.after, Axis::kColumn, x + count) == sx + count)
          ++count;
        std::memcpy(target + to.offset(y, x, 0), source + from.offset(sy, sx, 0),
                    static_cast<std::size_t>(count * piece));
      } else {
        pull_raw(ops, reinterpret_cast<std::uint64_t>(source),
                 reinterpret_cast<std::uint64_t>(target), y, x);
      }
      x += count;
    }
  }
}

}  // namespace echobuf::transform
