// Colour operations on rows, as the host carries them out: one loop for each step of
// the drawn order, whose kind, rounding and channels the compiler knows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "echobuf/transform/color.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

namespace detail {

/// `settings` with constants in place of what the steps branch on.
template <uint32_t kKind, bool kInteger, int kChannels>
inline Jitter known_step(const Jitter& settings) {
  Jitter op = settings;
  op.in.channels = kChannels;
  op.active = 1u << kKind;
  op.integer = kInteger ? 1 : 0;
  return op;
}

template <uint32_t kKind, bool kInteger, int kChannels>
void step_rows(const Jitter& settings, const Jitter::Draw& draw, float* const* rows,
               int32_t width) {
  if constexpr (kChannels == 1) {
    work_fast([settings, d = draw, row = rows[0], width] {
      const Jitter op = known_step<kKind, kInteger, 1>(settings);
      for (int32_t x = 0; x < width; ++x) op.step(d, kKind, row + x);
    });
  } else {
    work_fast(
        [settings, d = draw, red = rows[0], green = rows[1], blue = rows[2], width] {
          const Jitter op = known_step<kKind, kInteger, 3>(settings);
          float* __restrict__ const r = red;
          float* __restrict__ const g = green;
          float* __restrict__ const b = blue;
          for (int32_t x = 0; x < width; ++x) {
            float v[3] = {r[x], g[x], b[x]};
            op.step(d, kKind, v);
            r[x] = v[0];
            g[x] = v[1];
            b[x] = v[2];
          }
        });
  }
}

template <bool kInteger, int kChannels>
void step_rows(const Jitter& op, const Jitter::Draw& draw, uint32_t kind,
               float* const* rows, int32_t width) {
  switch (kind) {
    case Jitter::kBrightness:
      return step_rows<Jitter::kBrightness, kInteger, kChannels>(op, draw, rows, width);
    case Jitter::kContrast:
      return step_rows<Jitter::kContrast, kInteger, kChannels>(op, draw, rows, width);
    case Jitter::kSaturation:
      if constexpr (kChannels == 3)
        step_rows<Jitter::kSaturation, kInteger, 3>(op, draw, rows, width);
      return;
    default:
      if constexpr (kChannels == 3)
        step_rows<Jitter::kHue, kInteger, 3>(op, draw, rows, width);
  }
}

/// Changes rows by one step.
inline void step_rows(const Jitter& op, const Jitter::Draw& draw, uint32_t kind,
                      float* const* rows, int32_t width) {
  if (!op.has(kind)) return;
  const bool integer = op.integer != 0;
  if (op.in.channels == 3)
    integer ? step_rows<true, 3>(op, draw, kind, rows, width)
            : step_rows<false, 3>(op, draw, kind, rows, width);
  else
    integer ? step_rows<true, 1>(op, draw, kind, rows, width)
            : step_rows<false, 1>(op, draw, kind, rows, width);
}

template <int kChannels>
void grey_row(const Jitter& settings, float* const* rows, int32_t width) {
  work_fast([settings, first = rows[0], second = rows[kChannels > 1 ? 1 : 0],
             third = rows[kChannels > 1 ? 2 : 0], width] {
    Jitter op = settings;
    op.in.channels = kChannels;
    for (int32_t x = 0; x < width; ++x) {
      const float v[3] = {first[x], second[x], third[x]};
      first[x] = op.grey(v);
    }
  });
}

/// The sum of `GreySum::term` of a row. Terms are taken apart into multiples of 2^-15
/// and the rest in multiples of 2^-30, which vectors of 32-bit integers hold for as
/// many numbers as a chunk has.
inline int64_t sum_terms(const float* row, int32_t width) {
  constexpr int32_t kChunk = 128;
  constexpr float kHigh = 32768.0f;
  int64_t sum = 0;
  for (int32_t begin = 0; begin < width; begin += kChunk) {
    int32_t parts[2];
    const int32_t count = std::min(kChunk, width - begin);
    work_fast([from = row + begin, count, to = parts] {
      int32_t high = 0;
      int32_t low = 0;
      for (int32_t x = 0; x < count; ++x) {
        float v = exact::least(exact::most(from[x], -256.0f), 256.0f);
        v = (v == v ? v : 0.0f) * kHigh;
        const auto whole = static_cast<int32_t>(v);
        high += whole;
        low += static_cast<int32_t>((v - static_cast<float>(whole)) * kHigh);
      }
      to[0] = high;
      to[1] = low;
    });
    sum += int64_t{parts[0]} * 32768 + parts[1];
  }
  return sum;
}

}  // namespace detail

/// Changes all numbers of a row, in place: as `Jitter::pixel`.
inline void change_row(const Jitter& op, const Jitter::Draw& draw, float* const* rows,
                       const Place& first) {
  for (uint32_t k = 0; k < Jitter::kKinds; ++k)
    detail::step_rows(op, draw, draw.kind(k), rows, first.extent.width);
}

/// The terms of the mean for the contrast of a row's pixels, added up; the rows are
/// changed: as `Jitter::grey_before_contrast`.
inline int64_t sum_grey(const Jitter& op, const Jitter::Draw& draw, float* const* rows,
                        const Place& first) {
  const int32_t width = first.extent.width;
  for (uint32_t k = 0; k < Jitter::kKinds && draw.kind(k) != Jitter::kContrast; ++k)
    detail::step_rows(op, draw, draw.kind(k), rows, width);
  if (op.in.channels == 3) detail::grey_row<3>(op, rows, width);
  return detail::sum_terms(rows[0], width);
}

}  // namespace echobuf::transform
