// Batches as arrays: what Leaves hands out.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "leaves.hpp"
#include "tensor.hpp"

namespace echobuf::python {
namespace {

/// A writable array over memory that `base` keeps alive. What py::array's constructor
/// does, without its vectors: at five microseconds a batch they count. Its axes are
/// those of `lead`, and then the leaf's, from `axis` on.
template <std::size_t kLead>
py::object array_over(const Leaf& leaf, std::size_t axis,
                      const std::array<std::uint64_t, kLead>& lead, std::byte* data,
                      const py::object& base) {
  constexpr std::size_t kMostAxes = 64;  // NumPy's own limit
  std::array<Py_intptr_t, kMostAxes> shape;
  const std::size_t rest = leaf.shape.size() - axis;
  if (rest + kLead > kMostAxes) throw py::value_error("too many axes");
  for (std::size_t i = 0; i < kLead; ++i) shape[i] = static_cast<Py_intptr_t>(lead[i]);
  std::copy(leaf.shape.begin() + static_cast<std::ptrdiff_t>(axis), leaf.shape.end(),
            shape.begin() + kLead);
  const auto& numpy = py::detail::npy_api::get();
  const int flags = py::detail::npy_api::NPY_ARRAY_WRITEABLE_ |
                    py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                    py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  py::dtype dtype = leaf.dtype;  // the call takes a reference over
  auto array = py::reinterpret_steal<py::object>(numpy.PyArray_NewFromDescr_(
      numpy.PyArray_Type_, dtype.release().ptr(), static_cast<int>(rest + kLead),
      shape.data(), nullptr, data, flags, nullptr));
  if (!array) throw py::error_already_set();
  if (numpy.PyArray_SetBaseObject_(array.ptr(), py::object(base).release().ptr()) != 0)
    throw py::error_already_set();
  return array;
}

/// An object that gives the block back when it goes. py::capsule's own destructor keeps
/// the error that is set: giving a block back sets none.
py::capsule own(Block block) {
  auto owner = std::make_unique<Block>(std::move(block));
  py::capsule base(owner.get(), nullptr, [](PyObject* capsule) {
    delete static_cast<Block*>(PyCapsule_GetPointer(capsule, nullptr));
  });
  owner.release();  // NOLINT: the capsule's
  return base;
}

}  // namespace

py::list Leaves::wrap(Batch batch, LengthOptions::Form form,
                      const std::vector<py::object>& makers) const {
  std::byte* data = batch.block.data();
  const py::capsule base = own(std::move(batch.block));
  const Leaf index{py::dtype::of<std::int64_t>(), {}, sizeof(std::int64_t)};
  const bool packed = form == LengthOptions::Form::kPacked;
  using One = std::array<std::uint64_t, 1>;
  using Two = std::array<std::uint64_t, 2>;
  py::list arrays(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const LeafPlace& place = batch.places[i];
    const Leaf& leaf = leaves_[i];
    std::byte* const values = data + place.values;
    py::object made;
    if (!leaf.any_length) {
      made = array_over(leaf, in_batches_ ? 1 : 0, One{batch.count}, values, base);
    } else {
      const std::uint64_t entries = batch.count + (packed ? 1 : 0);
      made = makers.at(i)(
          packed ? array_over(leaf, 1, One{place.rows}, values, base)
                 : array_over(leaf, 1, Two{batch.count, place.rows}, values, base),
          array_over(index, 0, One{entries}, data + place.index, base));
    }
    PyList_SET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i), made.release().ptr());
  }
  return arrays;
}

py::list Leaves::wrap_rows(Batch batch, const std::vector<py::object>& makers) const {
  std::byte* data = batch.block.data();
  const py::capsule base = own(std::move(batch.block));
  const Leaf id{py::dtype::of<std::int32_t>(), {}, sizeof(std::int32_t)};
  const Leaf length{py::dtype::of<std::int64_t>(), {}, sizeof(std::int64_t)};
  using One = std::array<std::uint64_t, 1>;
  using Two = std::array<std::uint64_t, 2>;
  py::list arrays(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const LeafPlace& place = batch.places[i];
    const Two lead{batch.count, place.rows};
    py::object made = makers.at(i)(
        array_over(leaves_[i], 1, lead, data + place.values, base),
        array_over(id, 0, lead, data + batch.ids.segments, base),
        array_over(id, 0, lead, data + batch.ids.positions, base),
        array_over(length, 0, One{batch.count}, data + batch.ids.lengths, base));
    PyList_SET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i), made.release().ptr());
  }
  return arrays;
}

py::list Leaves::wrap(const BatchLayout& layout, Batch batch) const {
  std::byte* data = batch.block.data();
  const py::capsule base = own(std::move(batch.block));
  py::list arrays(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    py::object array = array_over(leaves_[i], in_batches_ ? 1 : 0,
                                  std::array<std::uint64_t, 1>{batch.count},
                                  data + layout.offset(i), base);
    PyList_SET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i), array.release().ptr());
  }
  return arrays;
}

bool Leaves::exportable() const {
  return std::all_of(leaves_.begin(), leaves_.end(),
                     [](const Leaf& leaf) { return leaf.dlpack.has_value(); });
}

py::list Leaves::export_all(const BatchLayout& layout, Batch batch) const {
  std::byte* data = batch.block.data();
  const auto block = std::make_shared<const Block>(std::move(batch.block));
  py::list exported(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(batch.count)};
    shape.insert(shape.end(), leaf.shape.begin() + (in_batches_ ? 1 : 0),
                 leaf.shape.end());
    py::object one = py::cast(ExportedLeaf(block, data + layout.offset(i),
                                           leaf.dlpack.value(), std::move(shape)));
    PyList_SET_ITEM(exported.ptr(), static_cast<py::ssize_t>(i), one.release().ptr());
  }
  return exported;
}

}  // namespace echobuf::python
