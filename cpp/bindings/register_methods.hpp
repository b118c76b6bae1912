// The methods that all buffers have.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace echobuf::python {

template <class Bound, class Class>
void register_methods(Class& bound) {
  bound.def("put", &Bound::put)
      .def("ready", &Bound::ready)
      .def("close", &Bound::close)
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
