// The kernels of kernels/draw.cu, rows.cu and scatter.cu as this driver runs them:
// blocks one after another, their threads step by step, on the host.
#pragma once

#include <cstdint>

#include "control.hpp"
#include "echobuf/cuda/kernels.hpp"
#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/draw/rows_kernel.hpp"
#include "echobuf/draw/scatter_kernel.hpp"

namespace echobuf::simulated {

inline void touch(const void* address, std::uint64_t bytes, int write) {
  echobuf_simulated_touch(address, bytes, write);
}

template <bool partners = false, class Parts>
void draw_all(const Launch& launch, const DrawLayout& layout, const Parts& parts,
              std::uint32_t count) {
  for (std::uint32_t block = 0; block < launch.grid.x; ++block) {
    std::uint64_t rows[kDrawTile];
    draw_block<partners>(HostThreads(launch.block.x), layout, parts, count, block,
                         rows);
  }
}

inline void draw(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  const auto& parts = *static_cast<const DrawParts*>(arguments[1]);
  draw_all(launch, *static_cast<const DrawLayout*>(arguments[0]), parts, parts.count);
}

inline void draw_partners(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  const auto& parts = *static_cast<const DrawParts*>(arguments[1]);
  draw_all<true>(launch, *static_cast<const DrawLayout*>(arguments[0]), parts,
                 parts.count);
}

inline void draw_planned(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  const PlannedParts parts{*static_cast<const std::uint64_t*>(arguments[1])};
  const std::uint32_t count = parts.count();
  if (count != 0)
    draw_all(launch, *static_cast<const DrawLayout*>(arguments[0]), parts, count);
}

inline void plan(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  for (std::uint32_t t = 0; t < launch.block.x; ++t)
    write_plan(*static_cast<const DrawParts*>(arguments[0]),
               *static_cast<const std::uint64_t*>(arguments[1]), t);
}

inline void draw_rows(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  for (std::uint32_t block = 0; block < launch.grid.x; ++block)
    draw_rows_block(HostThreads(launch.block.x),
                    *static_cast<const RowsMoves*>(arguments[0]), block);
}

inline void place_rows(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  for (std::uint32_t block = 0; block < launch.grid.x; ++block)
    place_rows_block(HostThreads(launch.block.x),
                     *static_cast<const PlaceMoves*>(arguments[0]), block);
}

inline void scatter(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  for (std::uint32_t block = 0; block < launch.grid.x; ++block)
    scatter_block(HostThreads(launch.block.x),
                  *static_cast<const ScatterLayout*>(arguments[0]), block);
}

inline cuda::FunctionHandle draw_function() {
  const std::size_t bytes[] = {sizeof(DrawLayout), sizeof(DrawParts)};
  return echobuf_simulated_kernel("echobuf_draw", draw, bytes, 2);
}

inline cuda::FunctionHandle draw_partners_function() {
  const std::size_t bytes[] = {sizeof(DrawLayout), sizeof(DrawParts)};
  return echobuf_simulated_kernel("echobuf_draw_partners", draw_partners, bytes, 2);
}

inline cuda::FunctionHandle draw_planned_function() {
  const std::size_t bytes[] = {sizeof(DrawLayout), sizeof(std::uint64_t)};
  return echobuf_simulated_kernel("echobuf_draw_planned", draw_planned, bytes, 2);
}

inline cuda::FunctionHandle plan_function() {
  const std::size_t bytes[] = {sizeof(DrawParts), sizeof(std::uint64_t)};
  return echobuf_simulated_kernel("echobuf_plan", plan, bytes, 2);
}

inline cuda::FunctionHandle draw_rows_function() {
  const std::size_t bytes[] = {sizeof(RowsMoves)};
  return echobuf_simulated_kernel("echobuf_draw_rows", draw_rows, bytes, 1);
}

inline cuda::FunctionHandle place_rows_function() {
  const std::size_t bytes[] = {sizeof(PlaceMoves)};
  return echobuf_simulated_kernel("echobuf_place_rows", place_rows, bytes, 1);
}

inline cuda::FunctionHandle scatter_function() {
  const std::size_t bytes[] = {sizeof(ScatterLayout)};
  return echobuf_simulated_kernel("echobuf_scatter", scatter, bytes, 1);
}

/// The kernels of buffers.
inline cuda::Kernels kernels() {
  return {.draw = draw_function(),
          .draw_planned = draw_planned_function(),
          .draw_partners = draw_partners_function(),
          .plan = plan_function(),
          .draw_rows = draw_rows_function(),
          .place_rows = place_rows_function(),
          .scatter = scatter_function()};
}

}  // namespace echobuf::simulated
