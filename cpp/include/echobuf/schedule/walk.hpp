// The part of walks over passes that all kinds share.
#pragma once

#include <cstdint>

#include "echobuf/schedule/part.hpp"
#include "echobuf/schedule/row_packer.hpp"
#include "echobuf/schedule/selection.hpp"

namespace echobuf {

/// A place in the chain of passes.
struct Position {
  std::uint64_t pass = 0;
  std::uint64_t offset = 0;  // draws taken from this pass
  std::uint64_t draws = 0;   // draws taken in all
};

enum class Step { kPart, kWait, kFinished };

/// The rest of a place in the chain of passes, where rows are packed: they are handed
/// out after examples that come later have joined them.
struct PackedBefore {
  OpenRows open_rows;
  std::uint64_t served_ahead = 0;  // draws after the place, in rows handed out before
  bool last = false;               // the rest is no batch, and is given up
};

/// Of a place in the chain of passes, what only the lengths of records tell.
struct Counted {
  std::uint64_t draws = 0;  // of all segments that have entered
  std::uint64_t oldest_segment = 0;
  std::uint64_t whole_before = 0;  // segments before that, which ended by their records

  bool operator==(const Counted&) const = default;
};

}  // namespace echobuf
