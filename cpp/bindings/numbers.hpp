// Python numbers as leaves: written as the leaf's dtype, without NumPy.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>

namespace echobuf::python {

namespace py = pybind11;

/// Room for the bytes of one number.
using NumberBytes = std::array<std::byte, 16>;

/// Writes what a Python number says as a number of one dtype. False if it is none of
/// that kind (an int is no float, a bool no int, a subclass none of them), or beyond
/// what the dtype holds.
using WriteNumber = bool (*)(PyObject* number, NumberBytes& bytes);

/// Null for a dtype whose numbers only NumPy writes.
WriteNumber writer_of_numbers(const py::dtype& dtype);

}  // namespace echobuf::python
