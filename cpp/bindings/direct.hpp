// Methods that each put or draw calls. Python calls them without pybind11's dispatch,
// which makes two vectors and a bound method for each call: a third of a small put.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>

namespace echobuf::python {

namespace py = pybind11;

/// The object behind a method's `self`, whose type Python has looked at.
template <class Bound>
Bound& self_of(PyObject* self) {
  const py::detail::value_and_holder made =
      reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  if (!made.holder_constructed()) throw py::type_error("__init__() was not called");
  return *made.value_ptr<Bound>();
}

/// Returns what `call` does, or raises in Python what it throws.
template <class Call>
PyObject* translated(Call&& call) {
  try {
    return call().release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
#if defined(__GLIBCXX__)  // other libraries' `catch (...)` lets a thread's end pass
  } catch (abi::__forced_unwind&) {
    throw;
#endif
  } catch (...) {
    py::detail::try_translate_exceptions();
  }
  return nullptr;
}

/// Seconds, or none for None.
inline std::optional<double> seconds_of(PyObject* timeout) {
  if (timeout == Py_None) return std::nullopt;
  const double seconds = PyFloat_AsDouble(timeout);
  if (seconds == -1.0 && PyErr_Occurred()) throw py::error_already_set();
  return seconds;
}

/// `put_tree(tree, stacked, timeout_s, term=None, version=None)`.
template <class Bound>
PyObject* direct_put_tree(PyObject* self, PyObject* const* arguments,
                          py::ssize_t count) {
  return translated([&] {
    if (count < 3 || count > 5)
      throw py::type_error("put_tree(tree, stacked, timeout_s, term, version)");
    std::optional<std::uint64_t> term;
    if (count >= 4 && arguments[3] != Py_None) {
      term = PyLong_AsUnsignedLongLong(arguments[3]);
      if (PyErr_Occurred()) throw py::error_already_set();
    }
    const auto tree = py::reinterpret_borrow<py::object>(arguments[0]);
    return self_of<Bound>(self).put_tree(tree, arguments[1] == Py_True,
                                         seconds_of(arguments[2]), term,
                                         count == 5 ? arguments[4] : Py_None);
  });
}

/// `ready()`: True, False, or a code.
template <class Bound>
PyObject* direct_ready(PyObject* self, PyObject* /*unused*/) {
  return translated([&]() -> py::object {
    const int answer = self_of<Bound>(self).ready();
    if (answer <= 1) return py::bool_(answer == 1);
    return py::int_(answer);
  });
}

/// `next(timeout_s)`.
template <class Bound>
PyObject* direct_next(PyObject* self, PyObject* timeout) {
  return translated([&] { return self_of<Bound>(self).next(seconds_of(timeout)); });
}

/// `next_into(arrays, timeout_s)`.
template <class Bound>
PyObject* direct_next_into(PyObject* self, PyObject* const* arguments,
                           py::ssize_t count) {
  return translated([&]() -> py::object {
    if (count != 2 || !PyList_Check(arguments[0]))
      throw py::type_error("next_into(arrays: list, timeout_s)");
    const auto arrays = py::reinterpret_borrow<py::list>(arguments[0]);
    return py::int_(self_of<Bound>(self).next_into(arrays, seconds_of(arguments[1])));
  });
}

/// `flatten(tree)`: a list, or None if it has another structure.
template <class Bound>
PyObject* direct_flatten(PyObject* self, PyObject* tree) {
  return translated([&] { return self_of<Bound>(self).leaves_of(tree); });
}

/// `unflatten(leaves)`.
template <class Bound>
PyObject* direct_unflatten(PyObject* self, PyObject* leaves) {
  return translated([&] {
    if (!PyList_Check(leaves)) throw py::type_error("unflatten(leaves: list)");
    return self_of<Bound>(self).unflatten(py::reinterpret_borrow<py::list>(leaves));
  });
}

/// Makes `method`, which must stay for ever, one of a class.
inline void add_method(const py::handle& type, PyMethodDef& method) {
  const auto made = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
  if (!made) throw py::error_already_set();
  py::setattr(type, method.ml_name, made);
}

/// A method of METH_FASTCALL as a PyMethodDef has it.
inline PyCFunction fast(PyObject* (*method)(PyObject*, PyObject* const*, py::ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method));
}

template <class Bound>
void add_put_tree(const py::handle& type) {
  static PyMethodDef method{"put_tree", fast(&direct_put_tree<Bound>), METH_FASTCALL,
                            "put_tree(tree, stacked, timeout_s, term, version)"};
  add_method(type, method);
}

template <class Bound>
void add_ready(const py::handle& type) {
  static PyMethodDef method{"ready", &direct_ready<Bound>, METH_NOARGS, "ready()"};
  add_method(type, method);
}

template <class Bound>
void add_next(const py::handle& type) {
  static PyMethodDef method{"next", &direct_next<Bound>, METH_O, "next(timeout_s)"};
  add_method(type, method);
}

template <class Bound>
void add_next_into(const py::handle& type) {
  static PyMethodDef method{"next_into", fast(&direct_next_into<Bound>), METH_FASTCALL,
                            "next_into(arrays, timeout_s)"};
  add_method(type, method);
}

template <class Bound>
void add_trees(const py::handle& type) {
  static PyMethodDef flatten{"flatten", &direct_flatten<Bound>, METH_O,
                             "flatten(tree)"};
  static PyMethodDef unflatten{"unflatten", &direct_unflatten<Bound>, METH_O,
                               "unflatten(leaves)"};
  add_method(type, flatten);
  add_method(type, unflatten);
}

}  // namespace echobuf::python
