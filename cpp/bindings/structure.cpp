#include "structure.hpp"

#include <pybind11/stl.h>

#include <string>
#include <utility>

namespace echobuf::python {
namespace {

/// Steals the reference; throws the Python error if there is none.
py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

bool is_sequence(PyObject* tree, PyTypeObject* type, std::size_t count) {
  if (!Py_IS_TYPE(tree, type)) return false;
  const py::ssize_t size =
      PyList_CheckExact(tree) ? PyList_GET_SIZE(tree) : PyTuple_GET_SIZE(tree);
  return static_cast<std::size_t>(size) == count;
}

/// Clears an error that Python's way of the put raises again, with its message; throws
/// any other.
void leave_to_python() {
  if (!PyErr_ExceptionMatches(PyExc_ValueError) &&
      !PyErr_ExceptionMatches(PyExc_TypeError))
    throw py::error_already_set();
  PyErr_Clear();
}

/// Item `i`, or nothing: a list may have become shorter, since looking a key up in a
/// dict runs code of the key's.
py::object item_of(PyObject* tree, py::ssize_t i) {
  if (PyTuple_Check(tree))
    return py::reinterpret_borrow<py::object>(PyTuple_GET_ITEM(tree, i));
  auto item = py::reinterpret_steal<py::object>(PySequence_GetItem(tree, i));
  if (!item) PyErr_Clear();
  return item;
}

/// The value of a key, or nothing, perhaps with an error set.
py::object value_of(PyObject* dict, PyObject* key) {
#if PY_VERSION_HEX >= 0x030D0000  // without the GIL a borrowed one may go at any time
  PyObject* value = nullptr;
  PyDict_GetItemRef(dict, key, &value);
  return py::reinterpret_steal<py::object>(value);
#else
  return py::reinterpret_borrow<py::object>(PyDict_GetItemWithError(dict, key));
#endif
}

}  // namespace

Structure::Structure(const py::object& nodes, py::object flatten, py::object unflatten,
                     std::size_t leaves)
    : flatten_(std::move(flatten)), unflatten_(std::move(unflatten)), leaves_(leaves) {
  if (!nodes.is_none()) root_ = make(nodes);
}

Structure::Node Structure::make(const py::handle& node) {
  const auto parts = node.cast<py::tuple>();
  const auto kind = parts[0].cast<std::string>();
  Node made;
  if (kind == "leaf") return made;
  if (kind == "none") {
    made.kind = Kind::kNone;
    return made;
  }
  for (const py::handle& child : parts[1].cast<py::tuple>())
    made.children.push_back(make(child));
  if (kind == "dict") {
    made.kind = Kind::kDict;
    for (const py::handle& key : parts[2].cast<py::tuple>())
      made.keys.push_back(py::reinterpret_borrow<py::object>(key));
    made.order = parts[3].cast<std::vector<std::size_t>>();
  } else if (kind == "list") {
    made.kind = Kind::kList;
  } else if (kind == "tuple") {
    made.kind = Kind::kTuple;
  } else {
    made.kind = Kind::kNamedTuple;
    made.type = parts[2];
  }
  return made;
}

bool Structure::flatten(PyObject* tree, HeldLeaves& leaves) const {
  leaves.reserve(leaves_);
  if (root_) {
    if (take_apart(*root_, tree, leaves)) return true;
    leaves.clear();
  }
  const auto list =
      py::reinterpret_steal<py::object>(PyObject_CallOneArg(flatten_.ptr(), tree));
  if (!list) {
    leave_to_python();
    return false;
  }
  for (py::ssize_t i = 0; i < PyList_GET_SIZE(list.ptr()); ++i)
    leaves.add(PyList_GET_ITEM(list.ptr(), i));
  return leaves.size() == leaves_;
}

bool Structure::take_apart(const Node& node, PyObject* tree, HeldLeaves& leaves) {
  switch (node.kind) {
    case Kind::kLeaf:
      leaves.add(tree);
      return true;
    case Kind::kNone:
      return tree == Py_None;
    case Kind::kDict:
      return take_apart_dict(node, tree, leaves);
    case Kind::kList:
      if (!is_sequence(tree, &PyList_Type, node.children.size())) return false;
      break;
    case Kind::kTuple:
      if (!is_sequence(tree, &PyTuple_Type, node.children.size())) return false;
      break;
    case Kind::kNamedTuple:
      if (!is_sequence(tree, reinterpret_cast<PyTypeObject*>(node.type.ptr()),
                       node.children.size()))
        return false;
      break;
  }
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const py::object child = item_of(tree, static_cast<py::ssize_t>(i));
    if (!child || !take_apart(node.children[i], child.ptr(), leaves)) return false;
  }
  return true;
}

bool Structure::take_apart_dict(const Node& node, PyObject* tree, HeldLeaves& leaves) {
  if (!PyDict_CheckExact(tree)) return false;
  if (static_cast<std::size_t>(PyDict_GET_SIZE(tree)) != node.children.size())
    return false;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const py::object child = value_of(tree, node.keys[i].ptr());
    if (!child) {
      if (PyErr_Occurred()) leave_to_python();
      return false;
    }
    if (!take_apart(node.children[i], child.ptr(), leaves)) return false;
  }
  return true;
}

py::object Structure::leaves_of(PyObject* tree) const {
  HeldLeaves held;
  if (!flatten(tree, held)) return py::none();
  py::list leaves(held.size());
  for (std::size_t i = 0; i < held.size(); ++i)
    PyList_SET_ITEM(leaves.ptr(), static_cast<py::ssize_t>(i),
                    Py_NewRef(held.data()[i]));
  return leaves;
}

py::object Structure::unflatten(const py::list& leaves) const {
  if (!root_ || leaves.size() != leaves_) return unflatten_(leaves);
  py::ssize_t next = 0;
  return put_together(*root_, leaves.ptr(), next);
}

py::object Structure::put_together(const Node& node, PyObject* leaves,
                                   py::ssize_t& next) {
  const auto count = static_cast<py::ssize_t>(node.children.size());
  switch (node.kind) {
    case Kind::kLeaf:
      return py::reinterpret_borrow<py::object>(PyList_GET_ITEM(leaves, next++));
    case Kind::kNone:
      return py::none();
    case Kind::kDict:
      return make_dict(node, leaves, next);
    case Kind::kList: {
      py::object list = checked(PyList_New(count));
      for (py::ssize_t i = 0; i < count; ++i)
        PyList_SET_ITEM(
            list.ptr(), i,
            put_together(node.children[static_cast<std::size_t>(i)], leaves, next)
                .release()
                .ptr());
      return list;
    }
    case Kind::kTuple:
    case Kind::kNamedTuple:
      break;
  }
  py::object tuple = checked(PyTuple_New(count));
  for (py::ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(
        tuple.ptr(), i,
        put_together(node.children[static_cast<std::size_t>(i)], leaves, next)
            .release()
            .ptr());
  if (node.kind == Kind::kTuple) return tuple;
  return checked(PyObject_CallObject(node.type.ptr(), tuple.ptr()));
}

py::object Structure::make_dict(const Node& node, PyObject* leaves, py::ssize_t& next) {
  std::vector<py::object> children;
  children.reserve(node.children.size());
  for (const Node& child : node.children)
    children.push_back(put_together(child, leaves, next));
  py::object dict = checked(PyDict_New());
  for (const std::size_t i : node.order)
    if (PyDict_SetItem(dict.ptr(), node.keys[i].ptr(), children[i].ptr()) != 0)
      throw py::error_already_set();
  return dict;
}

}  // namespace echobuf::python
