// Sizes of memory.
#pragma once

#include <cstddef>
#include <limits>
#include <new>

namespace echobuf {

/// A product of sizes. Throws std::bad_alloc where it passes 64 bits: wrapped around it
/// would be a small block with large records in it.
inline std::size_t size_product(std::size_t a, std::size_t b) {
  if (b != 0 && a > std::numeric_limits<std::size_t>::max() / 2 / b)
    throw std::bad_alloc();
  return a * b;
}

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The shape of a field of a record: `rows` rows of `row_bytes` each.
struct FieldShape {
  std::size_t row_bytes;
  std::size_t rows;
};

}  // namespace echobuf
