// Leaves that are no arrays, by the number of their example: a dict of Python's.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "structure.hpp"

namespace echobuf::python {

/// Puts add the objects of an example before it can be drawn, and draws find them in
/// `objects`, which is Python's: the core itself holds none.
class CarriedObjects {
 public:
  /// `kinds`: types whose instances are no arrays, beside str, bytes and None. `next`:
  /// the number of the example that is put next. `whole`: examples are whole batches.
  CarriedObjects(py::dict objects, py::object kinds, std::uint64_t next, bool whole)
      : objects_(std::move(objects)),
        kinds_(std::move(kinds)),
        next_(next),
        whole_(whole) {}

  /// Adds the leaves of the next examples: of `n`, if `stacked`; of a whole batch of
  /// `n`; else of one. False, and nothing is added, if Python must look at one of them.
  bool add(const HeldLeaves& leaves, std::uint64_t n, bool stacked);

  /// The same without a look.
  void add_known(const HeldLeaves& leaves, std::uint64_t n, bool stacked);

  std::uint64_t next() const { return next_; }

 private:
  bool is_known(PyObject* leaf, bool in_batch) const;
  void store(py::object value);

  py::dict objects_;
  py::object kinds_;
  std::uint64_t next_;
  bool whole_;
};

}  // namespace echobuf::python
