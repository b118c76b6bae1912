// Operations on numbers, row by row, where the host does better than number by number:
// noise, and what fills parts of a row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "echobuf/transform/normal_row.hpp"
#include "echobuf/transform/pixels.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

namespace detail {

template <bool kClip, bool kInteger>
void add_noise(const Noise& settings, const float* quantiles, float* row,
               int32_t count) {
  work_fast([settings, from = quantiles, to = row, count] {
    Noise op = settings;
    op.clip = kClip ? 1 : 0;
    op.integer = kInteger ? 1 : 0;
    for (int32_t i = 0; i < count; ++i) to[i] = op.added(to[i], from[i]);
  });
}

}  // namespace detail

inline void change_row(const Noise& op, const Noise::Draw& draw, float* const* rows,
                       const Place& first) {
  const bool clip = op.clip != 0;
  const bool integer = op.integer != 0;
  const auto add =
      clip ? integer ? detail::add_noise<true, true> : detail::add_noise<true, false>
      : integer ? detail::add_noise<false, true>
                : detail::add_noise<false, false>;
  for (int32_t c = 0; c < first.extent.channels; ++c)
    for_normals(draw.words, first.element(c),
                static_cast<uint32_t>(first.extent.channels), first.extent.width,
                [&](int32_t begin, int32_t count, const float* quantiles) {
                  add(op, quantiles, rows[c] + begin, count);
                });
}

inline void change_row(const Erase& op, const Erase::Draw& draw, float* const* rows,
                       const Place& first) {
  if (first.y < draw.top || first.y >= draw.top + draw.height) return;
  for (int32_t c = 0; c < first.extent.channels; ++c) {
    float* const row = rows[c] + draw.left;
    if (op.random == 0) {
      std::fill_n(row, draw.width, op.value[c]);
      continue;
    }
    Place at = first;
    at.x = draw.left;
    for_normals(draw.words, at.element(c), static_cast<uint32_t>(at.extent.channels),
                draw.width, [&](int32_t begin, int32_t count, const float* quantiles) {
                  std::copy_n(quantiles, count, row + begin);
                });
  }
}

inline void change_row(const Bands& op, const Bands::Draw& draw, float* const* rows,
                       const Place& first) {
  for (uint32_t i = 0; i < op.rows + op.columns; ++i) {
    const bool row = i < op.rows;
    if (row && (first.y < draw.begin[i] || first.y >= draw.end[i])) continue;
    const int32_t begin = row ? 0 : draw.begin[i];
    const int32_t end = row ? first.extent.width : draw.end[i];
    for (int32_t c = 0; c < first.extent.channels; ++c)
      std::fill(rows[c] + begin, rows[c] + std::max(begin, end), op.value);
  }
}

}  // namespace echobuf::transform
