// Arrays as they are put, of any owner: NumPy, a DLPack exchange, a buffer.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace echobuf::python {

namespace py = pybind11;

/// The place and layout of an array. Valid while its object lives and is not resized.
struct ArrayView {
  const std::byte* data;
  py::ssize_t ndim;
  const py::ssize_t* shape;
  const py::ssize_t* strides;  // null: the last axis first, without gaps
  py::ssize_t stride_bytes;    // of a stride of one
  py::ssize_t item_bytes;

  py::ssize_t stride(py::ssize_t axis) const;

  /// Returns whether the axes from `first` on are laid out without gaps.
  bool contiguous_from(py::ssize_t first) const;

  /// Returns whether the shape from `axis` on is `wanted` from `from` on.
  bool has_shape(py::ssize_t axis, const std::vector<py::ssize_t>& wanted,
                 std::size_t from) const;
};

}  // namespace echobuf::python
