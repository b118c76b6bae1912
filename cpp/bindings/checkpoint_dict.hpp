// A checkpoint as a dict of plain integers, lists and None.
#pragma once

#include <pybind11/pybind11.h>

#include "echobuf/buffer/buffer.hpp"

namespace echobuf::python {

pybind11::dict to_dict(const Checkpoint& checkpoint);

/// Throws std::invalid_argument or a Python error if the dict was not made by
/// to_dict().
Checkpoint from_dict(const pybind11::dict& state, const BufferOptions& options);

}  // namespace echobuf::python
