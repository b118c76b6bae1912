// Leaves that are no arrays, by the number of their example.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "structure.hpp"

namespace echobuf::python {

/// The objects of examples whose records are in the window. Puts add them before the
/// example can be drawn; draws take them, and forget those of records that have left.
/// They lie in a list of Python's, so that its collector sees them: nothing else of the
/// core holds one while it waits.
class CarriedObjects {
 public:
  /// `kinds`: types whose instances are no arrays, beside str, bytes and None.
  /// `leaves`: of an example. `next`: the number of the example that is put next.
  /// `whole`: examples are whole batches, and their objects lists.
  CarriedObjects(py::set kinds, std::size_t leaves, std::uint64_t next, bool whole)
      : kinds_(std::move(kinds)),
        leaves_(leaves),
        whole_(whole),
        next_(next),
        oldest_(next) {}

  /// Adds the leaves of the next examples: of `n`, if `stacked`; of a whole batch of
  /// `n`; else of one. False, and nothing is added, if Python must look at one of them.
  bool add(const HeldLeaves& leaves, std::uint64_t n, bool stacked);
  /// The same without a look.
  void add_known(const HeldLeaves& leaves, std::uint64_t n, bool stacked);

  using Numbers = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
  /// Of each leaf a list of the objects of these examples; of a whole batch, of all its
  /// examples. Throws std::out_of_range for numbers that are not there.
  py::list take(const Numbers& numbers) const;

  /// Forgets examples before `oldest`.
  void forget(std::uint64_t oldest);
  /// Forgets all.
  void clear();
  /// The examples that are there.
  std::uint64_t size() const { return next_ - oldest_; }
  std::uint64_t next() const { return next_; }

  /// What holds the objects, for Python's collector of cycles.
  PyObject* table() const { return objects_.ptr(); }

 private:
  /// Without the GIL: nobody else is in a call of this object.
  class Alone {
   public:
#ifdef Py_GIL_DISABLED
    explicit Alone(const CarriedObjects& objects) {
      PyCriticalSection_Begin(&section_, objects.lock_.ptr());
    }
    ~Alone() { PyCriticalSection_End(&section_); }

   private:
    PyCriticalSection section_;
#else
    explicit Alone(const CarriedObjects& /*unused*/) {}
    // Not trivial: a variable of it counts as used.
    ~Alone() {}  // NOLINT(modernize-use-equals-default)
#endif
  };

  bool is_known(PyObject* leaf, bool in_batch) const;
  std::uint64_t slots() const;
  void make_room(std::uint64_t examples);
  void store(std::uint64_t number, std::size_t leaf, py::object value);

  const py::set kinds_;
  const std::size_t leaves_;
  const bool whole_;
  std::uint64_t next_;
  std::uint64_t oldest_;
  py::list objects_;  // a ring: of each example `leaves_`, at its number
#ifdef Py_GIL_DISABLED
  py::list lock_;
#endif
};

/// The object that a weak reference is to, or none.
inline py::object referent(PyObject* reference) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(reference, &object) < 0) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
#else
  PyObject* const object = PyWeakref_GetObject(reference);
  if (object == nullptr) throw py::error_already_set();
  if (object == Py_None) return {};
  return py::reinterpret_borrow<py::object>(object);
#endif
}

}  // namespace echobuf::python
