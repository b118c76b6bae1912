// The methods that several buffers have.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "direct.hpp"

namespace echobuf::python {

/// The methods of what examples are put into.
template <class Bound, class Class>
void register_puts(Class& bound) {
  bound.def("use", &Bound::use)
      .def("carry", &Bound::carry)
      .def("put", &Bound::put)
      .def("put_all", &Bound::put_all);
  add_put_tree<Bound>(bound);
}

/// The methods that several buffers have.
template <class Bound, class Class>
void register_methods(Class& bound) {
  register_puts<Bound>(bound);
  add_ready<Bound>(bound);
  bound.def("close", &Bound::close)
      .def("fail", &Bound::fail)
      .def("term", &Bound::term)
      .def("abandon", &Bound::abandon)
      .def("reset", &Bound::reset, py::arg("epoch"), py::arg("skipped") = 0)
      .def("draining", &Bound::draining)
      .def("open_ahead", &Bound::open_ahead)
      .def("go_ahead", &Bound::go_ahead)
      .def("checkpoint", &Bound::checkpoint)
      .def("restore", &Bound::restore)
      .def("stats", &Bound::stats)
      .def("release", &Bound::release)
      .def("gone", &Bound::gone);
}

}  // namespace echobuf::python
