// Trees of arrays, taken apart and put together without Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace echobuf::python {

namespace py = pybind11;

/// Leaves of a tree, which stay alive though another thread changes the tree meanwhile.
class HeldLeaves {
 public:
  HeldLeaves() = default;
  ~HeldLeaves() {
    for (PyObject* leaf : leaves_) Py_DECREF(leaf);
  }
  HeldLeaves(const HeldLeaves&) = delete;
  HeldLeaves& operator=(const HeldLeaves&) = delete;

  void reserve(std::size_t count) { leaves_.reserve(count); }
  void add(PyObject* leaf) {
    leaves_.push_back(leaf);
    Py_INCREF(leaf);
  }
  void clear() {
    while (!leaves_.empty()) {
      PyObject* const leaf = leaves_.back();
      leaves_.pop_back();
      Py_DECREF(leaf);
    }
  }

  PyObject* const* data() const { return leaves_.data(); }
  std::size_t size() const { return leaves_.size(); }

 private:
  std::vector<PyObject*> leaves_;
};

/// The structure of trees: nodes that are dicts, lists, tuples or named tuples are
/// taken apart here, and all others, and those of derived types, by optree.
class Structure {
 public:
  /// `nodes`: as `echobuf.spec` describes them, or None if some are only optree's.
  /// `flatten`, `unflatten`: optree's. `leaves`: how many there are.
  Structure(const py::object& nodes, py::object flatten, py::object unflatten,
            std::size_t leaves);

  /// Adds the leaves of `tree`. False if it has another structure.
  bool flatten(PyObject* tree, HeldLeaves& leaves) const;

  /// A list of the leaves of `tree`, or None if it has another structure.
  py::object leaves_of(PyObject* tree) const;

  /// The tree with these leaves, as many as it has.
  py::object unflatten(const py::list& leaves) const;

 private:
  enum class Kind { kLeaf, kNone, kTuple, kNamedTuple, kList, kDict };

  struct Node {
    Kind kind = Kind::kLeaf;
    py::object type;                 // of a named tuple
    std::vector<py::object> keys;    // of a dict, in the order of its children
    std::vector<std::size_t> order;  // in which a dict gets its children
    std::vector<Node> children;
  };

  static Node make(const py::handle& node);
  static bool take_apart(const Node& node, PyObject* tree, HeldLeaves& leaves);
  static bool take_apart_dict(const Node& node, PyObject* tree, HeldLeaves& leaves);
  static py::object put_together(const Node& node, PyObject* leaves, py::ssize_t& next);
  static py::object make_dict(const Node& node, PyObject* leaves, py::ssize_t& next);

  std::optional<Node> root_;
  py::object flatten_;
  py::object unflatten_;
  std::size_t leaves_;
};

}  // namespace echobuf::python
