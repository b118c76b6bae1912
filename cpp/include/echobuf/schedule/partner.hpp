#pragma once

#include "echobuf/schedule/words.hpp"

// Which other record of its pass an example is mixed with. Its use is not counted.

namespace echobuf {

/// The place in its pass, over `records`, of the partner of the one at `offset`.
ECHOBUF_HD inline uint32_t partner_of(const transform::DrawNumber& number,
                                      uint32_t operation, uint32_t offset,
                                      uint32_t records) {
  if (records < 2) return offset;
  transform::Words words(number, operation);
  const uint32_t other = offset + 1 + words.below(records - 1);
  return other >= records ? other - records : other;
}

}  // namespace echobuf
