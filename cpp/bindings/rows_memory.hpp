// The memory of a batch whose records differ in length, as Python names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "echobuf/draw/part.hpp"

namespace echobuf::python {

/// Of each leaf: the addresses of its values and of its offsets or lengths, and the
/// rows that it has.
using RowsMemory =
    std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t>>;
/// Of packed rows: the addresses of segments, positions and lengths.
using RowsIdMemory = std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t>;

inline RowsTarget rows_target(const RowsMemory& memory, const RowsIdMemory& ids) {
  const auto at = [](std::uintptr_t address) {
    return reinterpret_cast<std::byte*>(address);
  };
  RowsTarget target;
  for (const auto& [values, index, rows] : memory)
    target.leaves.push_back({at(values), at(index), rows});
  target.segments = at(std::get<0>(ids));
  target.positions = at(std::get<1>(ids));
  target.lengths = at(std::get<2>(ids));
  return target;
}

}  // namespace echobuf::python
