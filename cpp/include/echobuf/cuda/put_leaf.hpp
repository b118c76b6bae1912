// Where the leaves of a put lie that are on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "echobuf/draw/scatter_layout.hpp"

namespace echobuf::cuda {

/// Where the bytes of one field of one record lie: items of some bytes along axes, the
/// last one first to change. No axes: they lie one behind another.
struct FieldItems {
  std::uint64_t item = 1;
  std::vector<ScatterAxis> axes;
};

/// Rows that lie in one array, the first of which is row `first` of all in the leaf.
struct PutRows {
  std::uint64_t first;
  std::uint64_t from;  // address of the first
  std::int64_t step;   // bytes from row to row
  FieldItems items;    // of a row
};

/// What a put knows of a leaf beside its SourceLeaf.
struct PutLeaf {
  bool on_device = false;     // its address is one of the device
  FieldItems items;           // of an example, if it has no rows
  std::vector<PutRows> rows;  // else; those of an example are in one array

  /// The array that row `row` is in. Of several that begin there all but the last are
  /// empty.
  const PutRows& rows_at(std::uint64_t row) const {
    return *(std::upper_bound(rows.begin(), rows.end(), row,
                              [](std::uint64_t at, const PutRows& array) {
                                return at < array.first;
                              }) -
             1);
  }
};

}  // namespace echobuf::cuda
