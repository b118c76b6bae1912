#include "placed_leaves.hpp"

#include <pybind11/stl.h>

#include "tensor.hpp"

namespace echobuf::python {
namespace {

/// The items of a view from axis `axis` on.
cuda::FieldItems items_of(const ArrayView& view, py::ssize_t axis) {
  cuda::FieldItems items{static_cast<std::uint64_t>(view.item_bytes), {}};
  for (; axis < view.ndim; ++axis)
    items.axes.push_back(
        {static_cast<std::uint64_t>(view.shape[axis]), view.stride(axis)});
  return items;
}

}  // namespace

PlacedLeaves::Array::Array(const py::handle& item) {
  if (!PyTuple_Check(item.ptr())) {
    tensor = py::reinterpret_borrow<py::object>(item);
    return;
  }
  const auto parts = item.cast<py::tuple>();
  shape = parts[1].cast<std::vector<py::ssize_t>>();
  if (!parts[2].is_none()) strides = parts[2].cast<std::vector<py::ssize_t>>();
  dtype = parts[3];
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it is one of the device
  view = {reinterpret_cast<const std::byte*>(parts[0].cast<std::uintptr_t>()),
          static_cast<py::ssize_t>(shape.size()),
          shape.data(),
          parts[2].is_none() ? nullptr : strides.data(),
          1,
          parts[4].cast<py::ssize_t>()};
}

PlacedLeaves::PlacedLeaves(const py::list& placed, int ordinal)
    : device_{kDlpackCuda, ordinal}, leaves_(placed.size()), places_(placed.size()) {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const py::handle item = placed[i];
    places_[i].on_device = !item.is_none();
    some_on_host_ = some_on_host_ || item.is_none();
    if (item.is_none()) continue;
    if (!PyList_Check(item.ptr())) {
      leaves_[i].emplace_back(item);
      continue;
    }
    leaves_[i].reserve(py::len(item));  // views point into it
    for (const py::handle& array : item.cast<py::list>())
      leaves_[i].emplace_back(array);
  }
}

bool PlacedLeaves::find_view(Array& array, const Leaf& leaf) const {
  if (array.tensor) {
    const auto& type = leaf.foreign ? leaf.foreign : leaf.dlpack;
    return type && view_tensor(array.tensor.ptr(), *type, array.view, device_);
  }
  const bool is_same = array.dtype.ptr() == leaf.dtype.ptr() ||
                       py::detail::npy_api::get().PyArray_EquivTypes_(array.dtype.ptr(),
                                                                      leaf.dtype.ptr());
  return is_same && array.view.item_bytes == leaf.dtype.itemsize();
}

std::optional<ArrayView> PlacedLeaves::view(std::size_t index, const Leaf& leaf) {
  Array& array = leaves_[index].at(0);
  if (!find_view(array, leaf)) return std::nullopt;
  return array.view;
}

void PlacedLeaves::note_items(std::size_t index, const ArrayView& view,
                              py::ssize_t axis) {
  places_[index].items = items_of(view, axis);
}

std::optional<std::uint64_t> PlacedLeaves::note_rows(std::size_t index,
                                                     const Leaf& leaf) {
  std::uint64_t rows = 0;
  for (Array& array : leaves_[index]) {
    if (!find_view(array, leaf)) return std::nullopt;
    const ArrayView& view = array.view;
    if (view.ndim < 1 || !view.has_shape(1, leaf.shape, 1)) return std::nullopt;
    places_[index].rows.push_back({rows, reinterpret_cast<std::uint64_t>(view.data),
                                   view.stride(0), items_of(view, 1)});
    rows += static_cast<std::uint64_t>(view.shape[0]);
  }
  return rows;
}

const std::byte* PlacedLeaves::rows_address(std::size_t index) const {
  for (const Array& array : leaves_[index])
    if (array.view.data != nullptr) return array.view.data;
  return nullptr;
}

}  // namespace echobuf::python
