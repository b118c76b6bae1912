// Where the leaves of a put lie that are on the device.
#pragma once

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

/// What a put knows of a leaf beside its SourceLeaf.
struct PutLeaf {
  bool on_device = false;     // its address is one of the device
  FieldItems items;           // of an example; of one row, if it has any number of them
  std::int64_t row_step = 0;  // then: bytes from row to row
};

}  // namespace echobuf::cuda
