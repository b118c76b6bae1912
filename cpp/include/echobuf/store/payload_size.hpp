// The measure of a payload ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "echobuf/length_options.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

/// Units, of how many bytes.
struct PayloadSize {
  std::uint64_t unit;
  std::uint64_t units;

  std::size_t bytes() const { return size_product(units, unit); }

  /// The ring of `records` that have `bytes` together, each of them `most` at most: it
  /// has room, besides, for the record that shows that there is no more, and for what
  /// one leaves free that does not wrap around. `fields`: of a record; `edge`: is set
  /// to the bytes of a record at most that are no rows.
  static PayloadSize around(std::uint64_t bytes, std::uint64_t most,
                            std::uint64_t records, std::size_t fields,
                            std::uint64_t& edge) {
    // Each field of a record begins at a multiple of 16 bytes, and each record with a
    // unit.
    const std::uint64_t padding = kFieldAlignment * fields;
    PayloadSize size{0, 0};
    std::uint64_t unit = 0;
    do {
      unit = size.unit;
      edge = padding + (unit > kFieldAlignment ? unit : 0);
      size = of(bytes + 2 * (most + edge) + size_product(records, edge));
    } while (size.unit != unit);
    return size;
  }

  /// Units of at least kFieldAlignment bytes, as many as claims can count. Throws
  /// std::bad_alloc where that is more than any memory.
  static PayloadSize of(std::uint64_t bytes) {
    std::uint64_t unit = kFieldAlignment;
    if (bytes > LengthOptions::kMostBytes) throw std::bad_alloc();
    while (bytes / unit >= Claims::kMostUnits) unit *= 2;
    return {unit, bytes / unit + 1};
  }
};

}  // namespace echobuf
