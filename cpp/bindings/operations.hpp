// Operations of a chain, from what Python says of them.
#pragma once

#include <pybind11/pybind11.h>

#include "echobuf/transform/stage.hpp"

namespace echobuf::python {

namespace py = pybind11;

/// `kind`: the name of a struct of echobuf/transform/, in lower case; `settings`: its
/// members by name. A custom operation has the members `table`, an address, and
/// `settings`, the struct as bytes.
transform::OpBlock make_operation(const std::string& kind, std::uint32_t number,
                                  const py::dict& settings);

}  // namespace echobuf::python
