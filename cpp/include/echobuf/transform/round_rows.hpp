// Rounding rows of floats to those that a narrower type has.
#pragma once

#include <cstdint>

#include "echobuf/transform/half_rows.hpp"
#include "echobuf/transform/pixels.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

/// Changes all numbers of a row, in place: as `Round::element`.
inline void change_row(const Round& op, const Round::Draw& draw, float* const* rows,
                       const Place& first) {
  const int32_t width = first.extent.width;
  for (int32_t c = 0; c < first.extent.channels; ++c) {
    float* const row = rows[c];
    if (op.type == NumberType::kFloat16) {
      round_halves(row, width);
      continue;
    }
    const auto round = [&]<NumberType type>() {
      work_fast([=] {
        constexpr Round kOp{type};
        for (int32_t x = 0; x < width; ++x)
          row[x] = kOp.element(draw, row[x], c, first);
      });
    };
    if (op.type == NumberType::kBfloat16)
      round.template operator()<NumberType::kBfloat16>();
    if (op.type == NumberType::kUint8) round.template operator()<NumberType::kUint8>();
  }
}

}  // namespace echobuf::transform
