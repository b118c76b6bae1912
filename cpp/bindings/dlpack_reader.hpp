// Tensors of others that come in a capsule of DLPack: read, and not taken over.
#pragma once

#include <pybind11/pybind11.h>

namespace echobuf::python {

namespace py = pybind11;

/// Returns the address, the shape, the strides in bytes (None: dense, the last axis
/// first), the name of the dtype (None: no framework has it), and type and number of
/// the device of the tensor in a capsule "dltensor" or "dltensor_versioned". The memory
/// is valid as long as the capsule lives: it stays the owner of the tensor.
/// Throws `ValueError` for another capsule, or one of a later DLPack.
py::tuple read_dlpack(const py::object& capsule);

}  // namespace echobuf::python
