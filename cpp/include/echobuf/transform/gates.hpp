#pragma once

#include "echobuf/transform/words.hpp"

// The conditions under which a stage is carried out: RandomApply, RandomChoice and
// RandomOrder. All alternatives of a choice read one image and write another one; just
// one of them is carried out at a draw.

namespace echobuf::transform {

/// One alternative of a choice. The word of operation `number` makes the choice: a
/// uniform within [low, high), or an order that has `alternative` at `position`.
struct Gate {
  uint32_t number;
  uint32_t order;  // operations that are put in order; 0: the uniform is asked
  uint32_t position;
  uint32_t alternative;
  double low;
  double high;
};

inline constexpr int kMostGates = 6;    // containers within each other
inline constexpr int kMostOrdered = 6;  // operations of one RandomOrder

ECHOBUF_HD constexpr uint32_t permutations_of(uint32_t count) {
  uint32_t permutations = 1;
  for (uint32_t i = 2; i <= count; ++i) permutations *= i;
  return permutations;
}

/// The operation at `position` of permutation `rank` of `count` operations, where
/// permutations are sorted.
ECHOBUF_HD constexpr uint32_t ordered(uint32_t rank, uint32_t count,
                                      uint32_t position) {
  uint32_t left = (1u << count) - 1;  // a bit for each that is at no position yet
  for (uint32_t at = 0;; ++at) {
    const uint32_t others = permutations_of(count - 1 - at);
    uint32_t skipped = rank / others;
    rank %= others;
    uint32_t operation = 0;
    while (((left >> operation) & 1) == 0 || skipped > 0) {
      skipped -= (left >> operation) & 1;
      ++operation;
    }
    if (at == position) return operation;
    left &= ~(1u << operation);
  }
}

/// Returns whether chance takes the alternative; `partner`: for the partner in a mix.
ECHOBUF_HD inline bool is_open(const Gate& gate, const DrawNumber& number,
                               bool partner) {
  Words words(number, gate.number + (partner ? kPartnerOperation : 0));
  const uint32_t word = words.word();
  if (gate.order != 0)
    return ordered(scaled(word, permutations_of(gate.order)), gate.order,
                   gate.position) == gate.alternative;
  return unit(word) >= gate.low && unit(word) < gate.high;
}

/// All gates of a stage, the outermost first.
struct Gates {
  uint32_t count = 0;
  Gate gate[kMostGates] = {};

  ECHOBUF_HD bool open(const DrawNumber& number, bool partner) const {
    for (uint32_t i = 0; i < count; ++i)
      if (!is_open(gate[i], number, partner)) return false;
    return true;
  }
};

}  // namespace echobuf::transform
