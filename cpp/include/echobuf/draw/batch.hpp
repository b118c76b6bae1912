// A batch in memory of the buffer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/draw/batch_pool.hpp"

namespace echobuf {

/// The place of a leaf in the block of a batch whose records differ in length.
struct LeafPlace {
  std::size_t values;      // where its values begin
  std::uint64_t rows = 0;  // of all records, if packed; of each record, if padded
  std::size_t index = 0;   // where int64 begin: offsets of records, one more than there
                           // are, if packed; their lengths, if padded
};

/// Offsets in a block of the numbers that say which value of packed rows is of which
/// example.
struct RowIds {
  std::size_t segments = 0;   // int32 for each value: 1 for the first example of a row
                              // and so on, 0 where there is none
  std::size_t positions = 0;  // int32 for each value: its number in the example, from 0
  std::size_t lengths = 0;    // int64 for each row: its values
};

/// The memory is the caller's until it is dropped.
struct Batch {
  Block block;
  std::uint64_t count = 0;             // examples
  std::vector<LeafPlace> places = {};  // of all leaves, where records differ in length;
                                       // else BatchLayout says where they are
  RowIds ids = {};                     // where rows are packed: `count` is of rows
};

}  // namespace echobuf
