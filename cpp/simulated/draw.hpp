// The draw kernel as this driver runs it: all blocks and threads of a launch, one after
// another, on the host.
#pragma once

#include <cstdint>

#include "control.hpp"
#include "echobuf/draw_kernel.hpp"

namespace echobuf::simulated {

inline void touch(const void* address, std::uint64_t bytes, int write) {
  echobuf_simulated_touch(address, bytes, write);
}

inline void draw(const Launch& launch, void* const* arguments) {
  const auto& a = *static_cast<const DrawArguments*>(arguments[0]);
  device::touched = touch;
  for (std::uint32_t block = 0; block < launch.grid.x; ++block) {
    std::uint64_t rows[kDrawTile];
    for (std::uint32_t t = 0; t < kDrawThreads; ++t) find_rows(a, block, t, rows);
    for (std::uint32_t t = 0; t < kDrawThreads; ++t) copy_rows(a, block, t, rows);
  }
}

inline cuda::FunctionHandle draw_function() {
  const std::size_t bytes = sizeof(DrawArguments);
  return echobuf_simulated_kernel("echobuf_draw", draw, &bytes, 1);
}

}  // namespace echobuf::simulated
