#include "carried.hpp"

#include <utility>

namespace echobuf::python {
namespace {

/// A list or a tuple, and no class of the caller's.
bool is_plain_sequence(PyObject* leaf) {
  return PyList_CheckExact(leaf) || PyTuple_CheckExact(leaf);
}

/// Of a batch's leaf, whether it has one object for each of `n` examples.
bool is_split(PyObject* leaf, std::uint64_t n) {
  return is_plain_sequence(leaf) &&
         static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(leaf)) == n;
}

/// A list with the object of each of `n` examples.
py::object spread(PyObject* leaf, std::uint64_t n) {
  if (is_split(leaf, n)) return checked(PySequence_List(leaf));
  py::object list = checked(PyList_New(static_cast<py::ssize_t>(n)));
  for (std::uint64_t i = 0; i < n; ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), Py_NewRef(leaf));
  return list;
}

}  // namespace

bool CarriedObjects::is_known(PyObject* leaf, bool in_batch) const {
  if (PyUnicode_CheckExact(leaf) || leaf == Py_None || PyBytes_CheckExact(leaf))
    return true;
  if (in_batch && is_plain_sequence(leaf)) {
    for (py::ssize_t i = 0; i < PySequence_Fast_GET_SIZE(leaf); ++i)
      if (!is_known(checked(PySequence_GetItem(leaf, i)).ptr(), false)) return false;
    return true;
  }
  const int known =
      PySet_Contains(kinds_.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(leaf)));
  if (known < 0) throw py::error_already_set();
  return known == 1;
}

bool CarriedObjects::add(const HeldLeaves& leaves, std::uint64_t n, bool stacked) {
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!is_known(leaves.data()[i], stacked || whole_)) return false;
  add_known(leaves, n, stacked);
  return true;
}

void CarriedObjects::add_known(const HeldLeaves& leaves, std::uint64_t n,
                               bool stacked) {
  const auto count = static_cast<py::ssize_t>(leaves.size());
  const std::uint64_t examples = stacked ? n : 1;
  for (std::uint64_t example = 0; example < examples; ++example) {
    const auto of_example = [&](PyObject* leaf) -> py::object {
      if (whole_) return spread(leaf, n);
      if (stacked && is_split(leaf, n))
        return checked(PySequence_GetItem(leaf, static_cast<py::ssize_t>(example)));
      return py::reinterpret_borrow<py::object>(leaf);
    };
    if (count == 1) {
      store(of_example(leaves.data()[0]));
      continue;
    }
    py::object all = checked(PyTuple_New(count));
    for (py::ssize_t i = 0; i < count; ++i)
      PyTuple_SET_ITEM(all.ptr(), i, of_example(leaves.data()[i]).release().ptr());
    store(std::move(all));
  }
}

void CarriedObjects::store(py::object value) {
  const py::object key = checked(PyLong_FromUnsignedLongLong(next_++));
  if (PyDict_SetItem(objects_.ptr(), key.ptr(), value.ptr()) != 0)
    throw py::error_already_set();
}

}  // namespace echobuf::python
