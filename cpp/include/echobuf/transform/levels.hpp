#pragma once

#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// The strength of an operation, of which an automatic augmentation has some levels.

namespace echobuf::transform {

/// Levels that are drawn alike, each with either sign where that is asked for.
struct Levels {
  static constexpr int kMost = 31;

  uint32_t count;
  uint32_t either_sign;
  float value[kMost];

  ECHOBUF_MEMBERS(count, either_sign, value)

  /// Takes a word for the level, and one for the sign: below one half it is turned.
  ECHOBUF_HD float pick(Words& words) const {
    const uint32_t which = words.below(count);
    const bool turned = words.chance(0.5) && either_sign != 0;
    // No index is computed: a device would keep the levels in memory.
    float level = value[0];
    for (uint32_t i = 1; i < static_cast<uint32_t>(kMost); ++i)
      level = i == which ? value[i] : level;
    return turned ? -level : level;
  }
};

}  // namespace echobuf::transform
