#include "python_buffer.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "checkpoint_dict.hpp"
#include "gil.hpp"
#include "waiting.hpp"

namespace echobuf::python {
namespace {

Leaf make_leaf(const py::handle& item, bool ragged) {
  const auto pair = item.cast<py::tuple>();
  Leaf leaf{pair[0].cast<py::dtype>(), pair[1].cast<std::vector<py::ssize_t>>(), 0};
  leaf.row_bytes = static_cast<std::size_t>(leaf.dtype.itemsize());
  for (std::size_t i = ragged ? 1 : 0; i < leaf.shape.size(); ++i)
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

/// The array that `item` is, or that a NumPy scalar makes, which `scalars` then keeps.
/// None for anything else: subclasses can mean more than their bytes say (masked
/// arrays).
std::optional<py::array> as_array(py::handle item, std::vector<py::object>& scalars) {
  const auto& numpy = py::detail::npy_api::get();
  if (Py_IS_TYPE(item.ptr(), numpy.PyArray_Type_))
    return py::reinterpret_borrow<py::array>(item);
  if (!is_numpy_scalar(item)) return std::nullopt;
  auto array = py::reinterpret_steal<py::array>(
      numpy.PyArray_FromAny_(item.ptr(), nullptr, 0, 0, 0, nullptr));
  if (!array) throw py::error_already_set();
  scalars.push_back(array);
  return array;
}

/// True if everything but axis 0 is laid out without gaps.
bool rows_contiguous(const py::array& array, py::ssize_t first_axis) {
  if (array.flags() & py::array::c_style) return true;
  py::ssize_t expected = array.itemsize();
  for (py::ssize_t axis = array.ndim() - 1; axis >= first_axis; --axis) {
    if (array.strides(axis) != expected) return false;
    expected *= array.shape(axis);
  }
  return true;
}

bool shape_from(const py::array& array, py::ssize_t axis, const Leaf& leaf,
                std::size_t leaf_axis) {
  const auto rest = static_cast<py::ssize_t>(leaf.shape.size() - leaf_axis);
  if (array.ndim() - axis != rest) return false;
  for (py::ssize_t i = 0; i < rest; ++i)
    if (array.shape(axis + i) != leaf.shape[leaf_axis + static_cast<std::size_t>(i)])
      return false;
  return true;
}

int code(Status status) { return static_cast<int>(status); }

/// A writable array over memory that `base` keeps alive. What py::array's constructor
/// does, without its vectors: at five microseconds a batch they count.
py::object view(const Leaf& leaf, std::size_t axis, std::uint64_t count,
                std::byte* data, const py::object& base) {
  constexpr std::size_t kMostAxes = 64;  // NumPy's own limit
  std::array<Py_intptr_t, kMostAxes> shape;
  const std::size_t rest = leaf.shape.size() - axis;
  if (rest >= kMostAxes) throw py::value_error("too many axes");
  shape[0] = static_cast<Py_intptr_t>(count);
  std::copy(leaf.shape.begin() + static_cast<std::ptrdiff_t>(axis), leaf.shape.end(),
            shape.begin() + 1);
  const auto& numpy = py::detail::npy_api::get();
  const int flags = py::detail::npy_api::NPY_ARRAY_WRITEABLE_ |
                    py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ |
                    py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  py::dtype dtype = leaf.dtype;  // the call takes a reference over
  auto array = py::reinterpret_steal<py::object>(numpy.PyArray_NewFromDescr_(
      numpy.PyArray_Type_, dtype.release().ptr(), static_cast<int>(rest + 1),
      shape.data(), nullptr, data, flags, nullptr));
  if (!array) throw py::error_already_set();
  if (numpy.PyArray_SetBaseObject_(array.ptr(), py::object(base).release().ptr()) != 0)
    throw py::error_already_set();
  return array;
}

}  // namespace

BufferOptions PythonBuffer::options(
    const py::list& leaves, bool ragged, std::uint64_t batch_size, std::uint64_t window,
    std::optional<std::pair<std::uint64_t, std::uint64_t>> factor,
    std::uint32_t max_factor, std::uint64_t seed, std::uint64_t epoch, bool drop_last,
    std::uint32_t prefetch) {
  BufferOptions options;
  for (const py::handle& item : leaves) {
    const Leaf leaf = make_leaf(item, ragged);
    const std::size_t rows = ragged ? static_cast<std::size_t>(leaf.shape.at(0)) : 1;
    options.fields.push_back({leaf.row_bytes, rows});
  }
  options.ragged = ragged;
  options.batch_size = batch_size;
  options.window = window;
  options.automatic = !factor;
  if (factor) options.factor = {factor->first, factor->second};
  options.max_factor = max_factor;
  options.seed = seed;
  options.epoch = epoch;
  options.drop_last = drop_last;
  options.prefetch = prefetch;
  return options;
}

PythonBuffer::PythonBuffer(const py::list& leaves, const BufferOptions& options)
    : buffer_(std::make_shared<Buffer>(options)) {
  for (const py::handle& item : leaves)
    leaves_.push_back(make_leaf(item, options.ragged));
}

std::shared_ptr<Buffer> PythonBuffer::hold() const {
#ifdef Py_GIL_DISABLED
  // In a forked child there is one thread, and another may have had the lock.
  if (generation_ != fork_generation()) return buffer_;
  const std::lock_guard lock(holding_);
#endif
  return buffer_;
}

int PythonBuffer::refuse(const std::shared_ptr<Buffer>& buffer) {
  if (!buffer) return kLeft;
  return buffer->of_this_process() ? 0 : kForked;
}

/// Where the rows of each leaf of a put lie.
struct PythonBuffer::Sources {
  std::vector<SourceLeaf> leaves;
  std::vector<py::object> scalars;  // as arrays of no axes, alive while they are copied
  std::uint64_t n = 0;
  std::size_t rows = 0;
};

/// Fills `sources`, or says the index of a leaf that does not fit.
std::optional<std::size_t> PythonBuffer::bind(const Buffer& buffer,
                                              const py::list& arrays, bool stacked,
                                              Sources& sources) const {
  const bool ragged = buffer.options().ragged;
  const py::ssize_t rows_axis = stacked ? 1 : 0;
  const py::ssize_t rest = rows_axis + (ragged ? 1 : 0);
  sources.leaves.reserve(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const py::handle item = PyList_GET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i));
    const auto array = as_array(item, sources.scalars);
    if (!array) return i;
    const Leaf& leaf = leaves_[i];
    if (array->ndim() < rest || !same_dtype(*array, leaf.dtype)) return i;
    if (!shape_from(*array, rest, leaf, ragged ? 1 : 0)) return i;
    if (!rows_contiguous(*array, rows_axis)) return i;
    const auto n = stacked ? static_cast<std::uint64_t>(array->shape(0)) : 1;
    const auto rows = ragged ? static_cast<std::size_t>(array->shape(rows_axis)) : 0;
    if (i == 0) {
      sources.n = n;
      sources.rows = rows;
    }
    if (n != sources.n || rows != sources.rows) return i;
    if (ragged && rows > static_cast<std::size_t>(leaf.shape[0])) return i;
    sources.leaves.push_back({static_cast<const std::byte*>(array->data()),
                              stacked ? array->strides(0) : 0});
  }
  return std::nullopt;
}

py::object PythonBuffer::put(const py::list& arrays, bool stacked,
                             std::optional<double> timeout_s) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return py::make_tuple(refused, 0);
  Sources sources;
  std::uint64_t done = 0;
  if (const auto leaf = bind(*buffer, arrays, stacked, sources))
    return py::make_tuple(kMismatch, *leaf);
  const std::uint64_t term = buffer->term();
  const bool brief = sources.n <= kKeepGil / buffer->record().stride();
  const Status status = run(brief, true, timeout_s, [&](Deadline deadline, Poll* poll) {
    return buffer->put(term, sources.leaves.data(), sources.n, sources.rows, done,
                       deadline, poll);
  });
  if (status == Status::kOk) return py::none();
  if (status == Status::kClosed && buffer->is_down())
    return py::make_tuple(kLeft, done);
  if (status == Status::kInterrupted) {
    py::error_already_set error;
    error.value().attr("accepted") = done;
    throw error;
  }
  return py::make_tuple(code(status), done);
}

py::list PythonBuffer::wrap(const Buffer& buffer, Batch batch) const {
  const bool ragged = buffer.options().ragged;
  const BatchLayout& layout = buffer.layout();
  std::byte* data = batch.block.data();
  auto owner = std::make_unique<Block>(std::move(batch.block));
  const py::capsule base(owner.get(),
                         [](void* block) { delete static_cast<Block*>(block); });
  owner.release();  // NOLINT: the capsule's
  py::list arrays(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    py::object array =
        view(leaves_[i], ragged ? 1 : 0, batch.count, data + layout.offset(i), base);
    PyList_SET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i), array.release().ptr());
  }
  return arrays;
}

py::object PythonBuffer::next(std::optional<double> timeout_s) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return py::int_(refused);
  Batch batch;
  const bool brief = buffer->prefetches() || buffer->layout().bytes() <= kKeepGil;
  const Status status =
      run(brief, !buffer->prefetches(), timeout_s, [&](Deadline deadline, Poll* poll) {
        return buffer->next(batch, deadline, poll);
      });
  if (status == Status::kInterrupted) throw py::error_already_set();
  if (status != Status::kOk) return py::int_(code(status));
  return wrap(*buffer, std::move(batch));
}

/// Fills `leaves` with where the arrays lie; false if Python must look at one of them:
/// it does not fit, is no plain array, or may share memory with another.
bool PythonBuffer::bind_out(const Buffer& buffer, const py::list& arrays,
                            std::vector<std::byte*>& leaves) const {
  struct Range {
    const std::byte* begin;
    const std::byte* end;
  };
  std::vector<Range> ranges;
  ranges.reserve(leaves_.size());
  leaves.reserve(leaves_.size());
  const bool ragged = buffer.options().ragged;
  const auto batch = static_cast<py::ssize_t>(buffer.options().batch_size);
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const py::handle item = PyList_GET_ITEM(arrays.ptr(), static_cast<py::ssize_t>(i));
    if (!Py_IS_TYPE(item.ptr(), py::detail::npy_api::get().PyArray_Type_)) return false;
    auto array = py::reinterpret_borrow<py::array>(item);
    const Leaf& leaf = leaves_[i];
    const py::ssize_t lead = ragged ? 0 : 1;
    if (!array.writeable() || !(array.flags() & py::array::c_style)) return false;
    if (array.ndim() < lead || !same_dtype(array, leaf.dtype)) return false;
    if (!shape_from(array, lead, leaf, 0)) return false;
    if (!ragged && array.shape(0) != batch) return false;
    auto* data = static_cast<std::byte*>(array.mutable_data());
    leaves.push_back(data);
    if (array.nbytes() != 0) ranges.push_back({data, data + array.nbytes()});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end) return false;
  return true;
}

py::ssize_t PythonBuffer::next_into(const py::list& arrays,
                                    std::optional<double> timeout_s) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return -refused;
  std::vector<std::byte*> leaves;
  if (!bind_out(*buffer, arrays, leaves)) return -kMismatch;
  Target target{leaves.data()};
  const bool brief = buffer->layout().bytes() <= kKeepGil;
  const Status status =
      run(brief, !buffer->prefetches(), timeout_s, [&](Deadline deadline, Poll* poll) {
        return buffer->next_into(target, deadline, poll);
      });
  if (status == Status::kInterrupted) throw py::error_already_set();
  if (status != Status::kOk) return -code(status);
  return static_cast<py::ssize_t>(target.count);
}

int PythonBuffer::ready() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  if (const auto answer = buffer->look()) return *answer ? 1 : 0;
  const GilRelease released;  // while a batch is assembled
  return buffer->ready() ? 1 : 0;
}

int PythonBuffer::close() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  buffer->close();
  return 0;
}

int PythonBuffer::fail() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  buffer->fail();
  return 0;
}

int PythonBuffer::reset(std::uint64_t epoch) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  const GilRelease released;
  return code(buffer->reset(epoch));
}

int PythonBuffer::draining() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  return buffer->draining() ? 1 : 0;
}

int PythonBuffer::open_ahead(std::uint64_t epoch) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  const GilRelease released;
  return buffer->open_ahead(epoch) ? 1 : 0;
}

int PythonBuffer::go_ahead() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  const GilRelease released;
  return buffer->go_ahead() ? 1 : 0;
}

py::object PythonBuffer::checkpoint() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return py::int_(refused);
  return to_dict(buffer->checkpoint());
}

int PythonBuffer::restore(const py::dict& state) {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return refused;
  const Checkpoint checkpoint = from_dict(state, buffer->options());
  const GilRelease released;
  return buffer->restore(checkpoint) ? 0 : kMismatch;
}

py::object PythonBuffer::stats() {
  const std::shared_ptr<Buffer> buffer = hold();
  if (const int refused = refuse(buffer)) return py::int_(refused);
  const BufferStats stats = buffer->stats();
  return py::make_tuple(stats.fresh, stats.served, stats.passes, stats.resident,
                        stats.bytes, stats.put_wait_s, stats.next_wait_s);
}

void PythonBuffer::release() {
  std::shared_ptr<Buffer> buffer;
  {
#ifdef Py_GIL_DISABLED
    std::unique_lock lock(holding_, std::defer_lock);
    if (generation_ == fork_generation()) lock.lock();
#endif
    buffer.swap(buffer_);
  }
  if (!buffer) return;
  if (!buffer->of_this_process()) return;  // its destructor leaves the parent's alone
  const GilRelease released;
  buffer->shut_down();
  buffer.reset();
}

}  // namespace echobuf::python
