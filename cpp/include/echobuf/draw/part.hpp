// The arguments of a draw: a part of a pass, and its target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/schedule/permutation.hpp"

namespace echobuf {

/// The leaves that a batch is drawn into, and how much of it there is.
struct Target {
  std::byte* const* leaves;
  std::uint64_t count = 0;  // records; rows, if ragged
  void* stream = nullptr;   // on a device: where the batch is to be valid
};

/// Draws `offset` ... `offset` + `count` - 1 of a pass over the records at `window`.
struct PassPart {
  const Permutation& order;
  std::uint64_t window;  // ring position of the first record
  std::uint64_t offset;
  std::uint64_t count;
  std::uint64_t draw;  // of the epoch: that of the first of them
  std::uint64_t epoch;
};

}  // namespace echobuf
