#include "structure.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>

namespace echobuf::python {
namespace {

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

py::list list_of(const HeldLeaves& held) {
  py::list leaves(held.size());
  for (std::size_t i = 0; i < held.size(); ++i)
    PyList_SET_ITEM(leaves.ptr(), static_cast<py::ssize_t>(i),
                    Py_NewRef(held.data()[i]));
  return leaves;
}

}  // namespace

Structure::Structure(const py::object& nodes, py::object flatten, py::object unflatten,
                     std::vector<bool> carried)
    : flatten_(std::move(flatten)),
      unflatten_(std::move(unflatten)),
      carried_(std::move(carried)),
      leaves_(carried_.size()),
      arrays_(static_cast<std::size_t>(
          std::count(carried_.begin(), carried_.end(), false))) {
  if (!nodes.is_none()) root_ = make(nodes);
}

Structure::Node Structure::make(const py::handle& node) {
  const auto parts = node.cast<py::tuple>();
  const auto kind = parts[0].cast<std::string>();
  Node made;
  if (kind == "leaf") return made;
  if (kind == "none" || kind == "carried") {
    made.kind = kind == "none" ? Kind::kNone : Kind::kCarried;
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

bool Structure::flatten(PyObject* tree, HeldLeaves& arrays, HeldLeaves& carried) const {
  arrays.reserve(arrays_);
  carried.reserve(leaves_ - arrays_);
  if (root_) {
    if (visit(*root_, tree, arrays, carried)) return true;
    arrays.clear();
    carried.clear();
  }
  const auto list =
      py::reinterpret_steal<py::object>(PyObject_CallOneArg(flatten_.ptr(), tree));
  if (!list) {
    leave_to_python();
    return false;
  }
  if (PyList_GET_SIZE(list.ptr()) != static_cast<py::ssize_t>(leaves_)) return false;
  for (std::size_t i = 0; i < leaves_; ++i)
    (carried_[i] ? carried : arrays)
        .add(PyList_GET_ITEM(list.ptr(), static_cast<py::ssize_t>(i)));
  return true;
}

bool Structure::visit(const Node& node, PyObject* tree, HeldLeaves& arrays,
                      HeldLeaves& carried) {
  switch (node.kind) {
    case Kind::kLeaf:
      arrays.add(tree);
      return true;
    case Kind::kCarried:
      carried.add(tree);
      return true;
    case Kind::kNone:
      return tree == Py_None;
    case Kind::kDict:
      return visit_dict(node, tree, arrays, carried);
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
    if (!child || !visit(node.children[i], child.ptr(), arrays, carried)) return false;
  }
  return true;
}

bool Structure::visit_dict(const Node& node, PyObject* tree, HeldLeaves& arrays,
                           HeldLeaves& carried) {
  if (!PyDict_CheckExact(tree)) return false;
  if (static_cast<std::size_t>(PyDict_GET_SIZE(tree)) != node.children.size())
    return false;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const py::object child = value_of(tree, node.keys[i].ptr());
    if (!child) {
      if (PyErr_Occurred()) leave_to_python();
      return false;
    }
    if (!visit(node.children[i], child.ptr(), arrays, carried)) return false;
  }
  return true;
}

py::object Structure::leaves_of(PyObject* tree) const {
  HeldLeaves arrays;
  HeldLeaves carried;
  if (!flatten(tree, arrays, carried)) return py::none();
  return list_of(arrays);
}

py::object Structure::take_apart(const py::object& tree) const {
  HeldLeaves arrays;
  HeldLeaves carried;
  if (!flatten(tree.ptr(), arrays, carried)) return py::none();
  return py::make_tuple(list_of(arrays), list_of(carried));
}

py::object Structure::join(const py::list& arrays, PyObject* carried) const {
  const auto objects = static_cast<py::ssize_t>(leaves_ - arrays_);
  if (arrays.size() != arrays_ || (carried && PyList_GET_SIZE(carried) != objects))
    return unflatten_(arrays);  // which says what is wrong
  Parts parts{arrays.ptr(), carried};
  if (root_) return put_together(*root_, parts);
  if (arrays_ == leaves_) return unflatten_(arrays);
  py::list leaves(leaves_);
  for (std::size_t i = 0; i < leaves_; ++i)
    PyList_SET_ITEM(leaves.ptr(), static_cast<py::ssize_t>(i),
                    Py_NewRef(carried_[i] ? parts.object() : parts.array()));
  return unflatten_(leaves);
}

py::object Structure::put_together(const Node& node, Parts& parts) {
  const auto count = static_cast<py::ssize_t>(node.children.size());
  switch (node.kind) {
    case Kind::kLeaf:
      return py::reinterpret_borrow<py::object>(parts.array());
    case Kind::kCarried:
      return py::reinterpret_borrow<py::object>(parts.object());
    case Kind::kNone:
      return py::none();
    case Kind::kDict:
      return make_dict(node, parts);
    case Kind::kList: {
      py::object list = checked(PyList_New(count));
      for (py::ssize_t i = 0; i < count; ++i)
        PyList_SET_ITEM(list.ptr(), i,
                        put_together(node.children[static_cast<std::size_t>(i)], parts)
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
    PyTuple_SET_ITEM(tuple.ptr(), i,
                     put_together(node.children[static_cast<std::size_t>(i)], parts)
                         .release()
                         .ptr());
  if (node.kind == Kind::kTuple) return tuple;
  return checked(PyObject_CallObject(node.type.ptr(), tuple.ptr()));
}

py::object Structure::make_dict(const Node& node, Parts& parts) {
  HeldLeaves children;
  children.reserve(node.children.size());
  for (const Node& child : node.children)
    children.add(put_together(child, parts).ptr());
  py::object dict = checked(PyDict_New());
  for (const std::size_t i : node.order)
    if (PyDict_SetItem(dict.ptr(), node.keys[i].ptr(), children.data()[i]) != 0)
      throw py::error_already_set();
  return dict;
}

}  // namespace echobuf::python
