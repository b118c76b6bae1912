#include "array_view.hpp"

#include <algorithm>

namespace echobuf::python {

py::ssize_t ArrayView::stride(py::ssize_t axis) const {
  if (strides != nullptr) return strides[axis] * stride_bytes;
  py::ssize_t bytes = item_bytes;
  for (py::ssize_t inner = ndim - 1; inner > axis; --inner) bytes *= shape[inner];
  return bytes;
}

bool ArrayView::contiguous_from(py::ssize_t first) const {
  if (strides == nullptr) return true;
  if (std::find(shape, shape + ndim, 0) != shape + ndim) return true;  // all of nothing
  py::ssize_t expected = item_bytes;
  for (py::ssize_t axis = ndim - 1; axis >= first; --axis) {
    // Of an axis of one the stride says nothing.
    if (shape[axis] != 1 && strides[axis] * stride_bytes != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

bool ArrayView::has_shape(py::ssize_t axis, const std::vector<py::ssize_t>& wanted,
                          std::size_t from) const {
  const auto rest = static_cast<py::ssize_t>(wanted.size() - from);
  if (ndim - axis != rest) return false;
  for (py::ssize_t i = 0; i < rest; ++i)
    if (shape[axis + i] != wanted[from + static_cast<std::size_t>(i)]) return false;
  return true;
}

}  // namespace echobuf::python
