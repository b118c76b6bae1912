// The leaves of a put that lie on a device.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "array_view.hpp"
#include "dlpack.hpp"
#include "echobuf/cuda/put_leaf.hpp"
#include "leaves.hpp"

namespace echobuf::python {

class PlacedLeaves {
 public:
  /// `placed`: for each leaf None, if it lies on the host; else a tensor of a framework
  /// with DLPack's exchange API, or a tuple of an address, shape, strides in bytes or
  /// None, dtype, and the bytes of an item. Of a leaf of any number of rows it may be a
  /// list of these, one an example. `ordinal`: of the device.
  PlacedLeaves(const py::list& placed, int ordinal);

  std::size_t size() const { return places_.size(); }
  bool is_on_device(std::size_t index) const { return places_[index].on_device; }
  bool some_on_host() const { return some_on_host_; }
  /// Complete once all leaves are bound.
  const cuda::PutLeaf* places() const { return places_.data(); }

  /// The view of a leaf that is one array. None if its dtype is not that of the spec,
  /// or Python must look at it.
  std::optional<ArrayView> view(std::size_t index, const Leaf& leaf);
  /// Notes that an example has the axes of that from `axis` on.
  void note_items(std::size_t index, const ArrayView& view, py::ssize_t axis);
  /// Notes where the rows of a leaf of any number lie. Returns how many they are; none
  /// where an array does not fit.
  std::optional<std::uint64_t> note_rows(std::size_t index, const Leaf& leaf);
  /// An address of the rows, which may lie apart.
  const std::byte* rows_address(std::size_t index) const;

 private:
  struct Array {
    explicit Array(const py::handle& item);

    py::object tensor;  // or
    std::vector<py::ssize_t> shape;
    std::vector<py::ssize_t> strides;
    py::object dtype;
    ArrayView view;
  };
  bool find_view(Array& array, const Leaf& leaf) const;

  const DlpackDevice device_;
  std::vector<std::vector<Array>> leaves_;
  std::vector<cuda::PutLeaf> places_;
  bool some_on_host_ = false;
};

}  // namespace echobuf::python
