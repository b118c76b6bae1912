#include "leaves.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "placed_leaves.hpp"
#include "tensor.hpp"

namespace echobuf::python {
namespace {

Leaf make_leaf(const py::handle& item, bool in_batches) {
  const auto pair = item.cast<py::tuple>();
  Leaf leaf{pair[0].cast<py::dtype>(), {}, 0};
  for (const py::handle& extent : pair[1].cast<py::tuple>()) {
    leaf.any_length = leaf.any_length || extent.is_none();
    leaf.shape.push_back(extent.is_none() ? 0 : extent.cast<py::ssize_t>());
  }
  if (leaf.shape.empty()) leaf.write_number = writer_of_numbers(leaf.dtype);
  leaf.dlpack = dlpack_type(leaf.dtype);
  leaf.row_bytes = static_cast<std::size_t>(leaf.dtype.itemsize());
  for (std::size_t i = in_batches || leaf.any_length ? 1 : 0; i < leaf.shape.size();
       ++i)
    leaf.row_bytes *= static_cast<std::size_t>(leaf.shape[i]);
  return leaf;
}

bool same_dtype(const py::array& array, const py::dtype& dtype) {
  const auto* own = py::detail::array_proxy(array.ptr())->descr;
  if (own == dtype.ptr()) return true;
  return py::detail::npy_api::get().PyArray_EquivTypes_(const_cast<PyObject*>(own),
                                                        dtype.ptr());
}

bool is_numpy_scalar(py::handle item) {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> generic;
  const py::object& type =
      generic
          .call_once_and_store_result(
              [] { return py::object(py::module_::import("numpy").attr("generic")); })
          .get_stored();
  return PyObject_TypeCheck(item.ptr(), reinterpret_cast<PyTypeObject*>(type.ptr()));
}

ArrayView view_of(const py::array& array) {
  const auto* proxy = py::detail::array_proxy(array.ptr());
  return {reinterpret_cast<const std::byte*>(proxy->data),
          proxy->nd,
          proxy->dimensions,
          proxy->strides,
          1,
          array.itemsize()};
}

/// Finds the memory of `item`, if it has the buffer protocol and the leaf's dtype.
bool lend(py::handle item, const Leaf& leaf, Sources& sources, ArrayView& view) {
  auto imported = ImportedBuffer::of(item.ptr(), *leaf.dlpack);
  if (!imported) return false;
  view = imported->view();
  sources.imported.push_back(std::move(*imported));
  return true;
}

/// Finds the memory of `item`, if its dtype is the leaf's. None for what only Python
/// can read: subclasses can mean more than their bytes say (masked arrays).
std::optional<ArrayView> view_of(py::handle item, const Leaf& leaf, Sources& sources) {
  const auto& numpy = py::detail::npy_api::get();
  ArrayView view;
  if (Py_IS_TYPE(item.ptr(), numpy.PyArray_Type_)) {
    const auto array = py::reinterpret_borrow<py::array>(item);
    if (!same_dtype(array, leaf.dtype)) return std::nullopt;
    return view_of(array);
  }
  if (is_numpy_scalar(item)) {
    // Those of others (bfloat16) lend nothing, and dates lend bytes.
    if (leaf.dlpack && lend(item, leaf, sources, view) && view.ndim == 0) return view;
    auto array = py::reinterpret_steal<py::array>(
        numpy.PyArray_FromAny_(item.ptr(), nullptr, 0, 0, 0, nullptr));
    if (!array) throw py::error_already_set();
    if (!same_dtype(array, leaf.dtype)) return std::nullopt;
    sources.scalars.push_back(array);
    return view_of(array);
  }
  if (!leaf.dlpack || PyObject_TypeCheck(item.ptr(), reinterpret_cast<PyTypeObject*>(
                                                         numpy.PyArray_Type_)))
    return std::nullopt;
  if (view_tensor(item.ptr(), *leaf.dlpack, view)) return view;
  if (lend(item, leaf, sources, view)) return view;
  return std::nullopt;
}

std::optional<ArrayView> view_of_foreign(py::handle item, const Leaf& leaf) {
  ArrayView view;
  if (!view_tensor(item.ptr(), *leaf.foreign, view)) return std::nullopt;
  return view;
}

/// Adds a Python number to `sources`, if the leaf can be one and `item` is.
bool bind_number(const Leaf& leaf, py::handle item, std::size_t leaves,
                 Sources& sources) {
  if (leaf.write_number == nullptr) return false;
  NumberBytes bytes;
  if (!leaf.write_number(item.ptr(), bytes)) return false;
  if (sources.numbers.empty()) sources.numbers.reserve(leaves);  // they stay in place
  sources.numbers.push_back(bytes);
  sources.add(sources.numbers.back().data(), 0);
  sources.n = 1;
  return true;
}

}  // namespace

Leaves::Leaves(const py::list& spec, bool in_batches) : in_batches_(in_batches) {
  for (const py::handle& item : spec) leaves_.push_back(make_leaf(item, in_batches));
}

std::vector<FieldShape> Leaves::fields() const {
  std::vector<FieldShape> fields;
  for (const Leaf& leaf : leaves_) {
    const bool has_rows = in_batches_ || leaf.any_length;
    const std::size_t rows = has_rows ? static_cast<std::size_t>(leaf.shape.at(0)) : 1;
    fields.push_back({leaf.row_bytes, rows});
  }
  return fields;
}

void Leaves::take_foreign(const std::vector<std::optional<std::string>>& names) {
  for (std::size_t i = 0; i < leaves_.size() && i < names.size(); ++i)
    if (names[i]) leaves_[i].foreign = dlpack_type(*names[i]);
}

std::size_t Leaves::bind(PyObject* const* arrays, Form form, bool stacked,
                         Sources& sources, PlacedLeaves* placed) const {
  const py::ssize_t rows_axis = stacked ? 1 : 0;
  const py::ssize_t rest = rows_axis + (in_batches_ ? 1 : 0);
  sources.leaves.reserve(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const py::handle item = arrays[i];
    const Leaf& leaf = leaves_[i];
    if (leaf.any_length) {
      const auto before = std::pair(sources.n, sources.rows);
      if (!bind_rows(leaf, item, form, stacked, sources, placed, i)) return i;
      if (i > 0 && std::pair(sources.n, sources.rows) != before) return i;
      continue;
    }
    const bool on_device = placed != nullptr && placed->is_on_device(i);
    const bool foreign = form == Form::kYielded && leaf.foreign;
    if (!on_device && !foreign && !stacked &&
        bind_number(leaf, item, leaves_.size(), sources))
      continue;
    const auto array = on_device ? placed->view(i, leaf)
                       : foreign ? view_of_foreign(item, leaf)
                                 : view_of(item, leaf, sources);
    if (!array || array->ndim < rest) return i;
    if (!array->has_shape(rest, leaf.shape, in_batches_ ? 1 : 0)) return i;
    if (on_device)
      placed->note_items(i, *array, rows_axis);
    else if (!array->contiguous_from(rows_axis))
      return i;
    const auto n = stacked ? static_cast<std::uint64_t>(array->shape[0]) : 1;
    const auto rows =
        in_batches_ ? static_cast<std::size_t>(array->shape[rows_axis]) : 0;
    if (i == 0) {
      sources.n = n;
      sources.rows = rows;
    }
    if (n != sources.n || rows != sources.rows) return i;
    if (in_batches_ && rows > static_cast<std::size_t>(leaf.shape[0])) return i;
    sources.add(array->data, stacked ? array->stride(0) : 0);
  }
  return within_limits(sources) ? leaves_.size() : 0;
}

/// Finds a leaf of any length: an array of one example's rows, or, stacked, a pair of
/// the rows of all and of int64 offsets. The same pair is a whole batch; several of
/// these are put one by one.
bool Leaves::bind_rows(const Leaf& leaf, py::handle item, Form form, bool stacked,
                       Sources& sources, PlacedLeaves* placed,
                       std::size_t index) const {
  py::handle values = item;
  py::handle ends = item;
  const bool on_device = placed != nullptr && placed->is_on_device(index);
  if (in_batches_ && stacked) return false;
  if ((in_batches_ || stacked) && !on_device) {
    if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 2) return false;
    values = PyTuple_GET_ITEM(item.ptr(), 0);
    ends = PyTuple_GET_ITEM(item.ptr(), 1);
  }
  SourceLeaf source{nullptr, 0};
  if (on_device) {
    const auto count = placed->note_rows(index, leaf);
    if (!count) return false;
    source.rows = *count;
    source.data = placed->rows_address(index);
  } else {
    const auto array = form == Form::kYielded && leaf.foreign
                           ? view_of_foreign(values, leaf)
                           : view_of(values, leaf, sources);
    if (!array || array->ndim < 1 || !array->has_shape(1, leaf.shape, 1)) return false;
    if (!array->contiguous_from(0)) return false;
    source.data = array->data;
    source.rows = static_cast<std::uint64_t>(array->shape[0]);
  }
  source.most_rows = most_rows_;
  const std::uint64_t rows = source.rows;
  sources.n = 1;
  if (in_batches_ || stacked) {
    static const Leaf kOffsets = [] {
      Leaf offsets{py::dtype::of<std::int64_t>(), {0}, sizeof(std::int64_t)};
      offsets.dlpack = dlpack_type(offsets.dtype);
      return offsets;
    }();
    const auto offsets = view_of(ends, kOffsets, sources);
    if (!offsets || offsets->ndim != 1 || offsets->shape[0] < 1) return false;
    if (!offsets->contiguous_from(0)) return false;
    const auto* const first = reinterpret_cast<const std::int64_t*>(offsets->data);
    const auto examples = static_cast<std::uint64_t>(offsets->shape[0]) - 1;
    if (first[0] != 0 || static_cast<std::uint64_t>(first[examples]) != rows)
      return false;
    bool ordered = true;
    for (std::uint64_t i = 0; i < examples; ++i) ordered &= first[i + 1] >= first[i];
    if (!ordered) return false;
    if (in_batches_) {
      if (examples > most_examples_) return false;
      source.batch_offsets = first;
      sources.rows = examples;
    } else {
      source.offsets = first;
      sources.n = examples;
    }
  }
  sources.payload += rows * leaf.row_bytes;
  sources.leaves.push_back(source);
  return true;
}

/// Returns the most rows of an example of the whole batch that is put.
std::uint64_t Leaves::longest_of(const Sources& sources, std::size_t leaf) {
  const std::int64_t* const offsets = sources.leaves[leaf].batch_offsets;
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < sources.rows; ++i)
    longest = std::max(longest, offsets[i + 1] - offsets[i]);
  return static_cast<std::uint64_t>(longest);
}

/// Returns whether each example's leaves of any length are within the limits.
bool Leaves::within_limits(const Sources& sources) const {
  // No example has more than all of them have together.
  const bool bounded =
      std::any_of(leaves_.begin(), leaves_.end(),
                  [](const Leaf& leaf) { return leaf.max_length > 0; });
  if (!same_lengths_ && !bounded &&
      (most_bytes_ == 0 || sources.payload <= most_bytes_))
    return true;
  for (std::uint64_t i = 0; i < sources.n; ++i) {
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < leaves_.size(); ++f) {
      if (!leaves_[f].any_length) continue;
      const std::uint64_t rows = sources.leaves[f].rows_of(i);
      const std::uint64_t longest = in_batches_ ? longest_of(sources, f) : rows;
      if (leaves_[f].max_length > 0 && longest > leaves_[f].max_length) return false;
      bytes += rows * leaves_[f].row_bytes;
      if (same_lengths_ && rows != sources.leaves[0].rows_of(i)) return false;
    }
    if (most_bytes_ > 0 && bytes > most_bytes_) return false;
  }
  return true;
}

void Leaves::limit(const LengthOptions& lengths, std::uint64_t most_bytes) {
  for (const RaggedField& field : lengths.fields)
    leaves_.at(field.field).max_length = field.max_length;
  most_bytes_ = most_bytes;
  most_examples_ = lengths.examples;
  same_lengths_ = lengths.packs();
  if (lengths.packs() && lengths.cut) most_rows_ = lengths.row_length();
}

bool Leaves::bind_out(const py::list& arrays, std::uint64_t batch_size,
                      std::vector<std::byte*>& targets) const {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
  };
  std::vector<Range> ranges;
  ranges.reserve(leaves_.size());
  targets.reserve(leaves_.size());
  const auto batch = static_cast<py::ssize_t>(batch_size);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const py::handle item = PyList_GET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i));
    if (!Py_IS_TYPE(item.ptr(), py::detail::npy_api::get().PyArray_Type_)) return false;
    auto array = py::reinterpret_borrow<py::array>(item);
    const Leaf& leaf = leaves_[i];
    const py::ssize_t lead = in_batches_ ? 0 : 1;
    if (!array.writeable() || !(array.flags() & py::array::c_style)) return false;
    if (array.ndim() < lead || !same_dtype(array, leaf.dtype)) return false;
    if (!view_of(array).has_shape(lead, leaf.shape, 0)) return false;
    if (!in_batches_ && array.shape(0) != batch) return false;
    auto* data = static_cast<std::byte*>(array.mutable_data());
    targets.push_back(data);
    if (array.nbytes() != 0) ranges.push_back({data, data + array.nbytes()});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end) return false;
  return true;
}

std::vector<std::byte> padding(const py::bytes& item) {
  const std::string pad = item;
  std::vector<std::byte> bytes;
  if (pad.find_first_not_of(std::string(1, 0)) != std::string::npos)
    for (const char byte : pad) bytes.push_back(static_cast<std::byte>(byte));
  return bytes;
}

std::vector<RaggedField> ragged_fields(const py::list& spec,
                                       const std::vector<std::uint64_t>& max_lengths,
                                       const std::vector<py::bytes>& pad_values) {
  std::vector<RaggedField> fields;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const Leaf leaf = make_leaf(spec[i], false);
    if (!leaf.any_length) continue;
    RaggedField field;
    field.field = i;
    field.row_bytes = leaf.row_bytes;
    if (i < max_lengths.size()) field.max_length = max_lengths[i];
    if (i < pad_values.size()) field.pad = padding(pad_values[i]);
    fields.push_back(std::move(field));
  }
  return fields;
}

}  // namespace echobuf::python
