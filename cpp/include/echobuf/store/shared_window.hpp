// Where the parts of a window lie in one piece of memory that processes share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/store/record.hpp"

namespace echobuf {

/// The slots, and where records differ in length, what comes behind them: where the
/// rows of each slot lie, where in the payload each record ends, and the payload.
struct SharedWindow {
  std::uint64_t slots = 0;
  std::uint64_t stride = 0;  // bytes of a slot
  std::uint64_t fields = 0;  // of any number of rows; 0: there is no payload
  std::uint64_t unit = 0;    // of the payload, in bytes
  std::uint64_t units = 0;

  /// The rows of one field of a record.
  struct Rows {
    std::uint64_t offset;  // in the payload, in bytes
    std::uint64_t count;
  };

  std::size_t rows_at() const {
    return round_up(size_product(slots, stride), kLeafAlignment);
  }
  std::size_t ends_at() const {
    return rows_at() + size_product(size_product(slots, fields), sizeof(Rows));
  }
  std::size_t payload_at() const {
    return round_up(ends_at() + size_product(slots, sizeof(std::uint64_t)),
                    kLeafAlignment);
  }
  std::size_t payload_bytes() const { return size_product(units, unit); }
  std::size_t bytes() const {
    return fields > 0 ? payload_at() + payload_bytes() : size_product(slots, stride);
  }
};

}  // namespace echobuf
