#pragma once

#include <cstdint>

namespace echobuf {

/// A run of fresh records, numbered in the order in which they were put.
struct Span {
  std::uint64_t first;
  std::uint64_t count;

  std::uint64_t end() const { return first + count; }
  bool operator==(const Span&) const = default;
};

}  // namespace echobuf
