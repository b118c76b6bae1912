// Trees of arrays, taken apart and put together without Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

namespace echobuf::python {

namespace py = pybind11;

/// Steals the reference; throws the Python error if there is none.
inline py::object checked(PyObject* object) {
  if (object == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

/// Leaves of a tree, which stay alive though another thread changes the tree meanwhile.
class HeldLeaves {
 public:
  HeldLeaves() = default;
  ~HeldLeaves() { clear(); }
  HeldLeaves(const HeldLeaves&) = delete;
  HeldLeaves& operator=(const HeldLeaves&) = delete;

  /// Makes room for so many, before the first is added.
  void reserve(std::size_t count) {
    if (count <= few_.size()) return;
    many_.resize(count);
    leaves_ = many_.data();
  }
  void add(PyObject* leaf) { leaves_[size_++] = Py_NewRef(leaf); }
  void clear() {
    while (size_ > 0) {
      --size_;
      Py_DECREF(leaves_[size_]);
    }
  }

  PyObject* const* data() const { return leaves_; }
  std::size_t size() const { return size_; }

 private:
  std::array<PyObject*, 8> few_;  // most trees have no more: nothing is allocated
  std::vector<PyObject*> many_;
  PyObject** leaves_ = few_.data();
  std::size_t size_ = 0;
};

/// The structure of trees: nodes that are dicts, lists, tuples or named tuples are
/// taken apart here, and all others, and those of derived types, by optree.
class Structure {
 public:
  /// `nodes`: as `echobuf.spec` describes them, or None if some are only optree's.
  /// `flatten`, `unflatten`: optree's. `carried`: of each leaf, whether it is carried,
  /// which is any object and no array.
  Structure(const py::object& nodes, py::object flatten, py::object unflatten,
            std::vector<bool> carried);

  /// Adds the leaves of `tree`: arrays, and what is carried. False if it has another
  /// structure.
  bool flatten(PyObject* tree, HeldLeaves& arrays, HeldLeaves& carried) const;

  /// A list of the arrays of `tree`, or None if it has another structure.
  py::object leaves_of(PyObject* tree) const;
  /// The same, and a list of what is carried: a tuple.
  py::object take_apart(const py::object& tree) const;

  /// The tree with these arrays, as many as it has, and None for what is carried.
  py::object unflatten(const py::list& arrays) const { return join(arrays, nullptr); }
  /// The tree with these arrays, and the leaves that are carried, in a list.
  py::object join(const py::list& arrays, PyObject* carried) const;

 private:
  enum class Kind { kLeaf, kCarried, kNone, kTuple, kNamedTuple, kList, kDict };

  struct Node {
    Kind kind = Kind::kLeaf;
    py::object type;                 // of a named tuple
    std::vector<py::object> keys;    // of a dict, in the order of its children
    std::vector<std::size_t> order;  // in which a dict gets its children
    std::vector<Node> children;
  };

  static Node make(const py::handle& node);
  /// Leaves that are put together, in lists, and how many have been.
  struct Parts {
    PyObject* arrays;
    PyObject* carried;  // null: None for each
    py::ssize_t next = 0;
    py::ssize_t next_carried = 0;

    PyObject* array() { return PyList_GET_ITEM(arrays, next++); }
    PyObject* object() {
      return carried ? PyList_GET_ITEM(carried, next_carried++) : Py_None;
    }
  };

  static bool visit(const Node& node, PyObject* tree, HeldLeaves& arrays,
                    HeldLeaves& carried);
  static bool visit_dict(const Node& node, PyObject* tree, HeldLeaves& arrays,
                         HeldLeaves& carried);
  static py::object put_together(const Node& node, Parts& parts);
  static py::object make_dict(const Node& node, Parts& parts);

  std::optional<Node> root_;
  py::object flatten_;
  py::object unflatten_;
  std::vector<bool> carried_;
  std::size_t leaves_;
  std::size_t arrays_;
};

}  // namespace echobuf::python
