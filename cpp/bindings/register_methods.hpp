// The methods that several buffers have.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "any_buffer.hpp"
#include "direct.hpp"

namespace echobuf::python {

/// Registers the classes that buffers and rings inherit from.
inline void register_any_buffer(py::module_& m) {
  py::class_<AnyPuts>(m, "_Puts")
      .def("use", &AnyPuts::use)
      .def("take_foreign", &AnyPuts::take_foreign)
      .def("put", &AnyPuts::put, py::arg("arrays"), py::arg("stacked"),
           py::arg("timeout_s"), py::arg("version") = py::none())
      .def("put_all", &AnyPuts::put_all, py::arg("stacked"), py::arg("term"),
           py::arg("items"), py::arg("most"), py::arg("carried") = py::none());
  py::class_<AnyBuffer, AnyPuts>(m, "_Bound")
      .def("close", &AnyBuffer::close)
      .def("fail", &AnyBuffer::fail)
      .def("term", &AnyBuffer::term)
      .def("abandon", &AnyBuffer::abandon)
      .def("oldest_needed", &AnyBuffer::oldest_needed)
      .def("reset", &AnyBuffer::reset, py::arg("epoch"), py::arg("skipped") = 0)
      .def("draining", &AnyBuffer::draining)
      .def("open_ahead", &AnyBuffer::open_ahead)
      .def("go_ahead", &AnyBuffer::go_ahead)
      .def("checkpoint", &AnyBuffer::checkpoint)
      .def("restore", &AnyBuffer::restore)
      .def("stats", &AnyBuffer::stats)
      .def("release", &AnyBuffer::release)
      .def("gone", &AnyBuffer::gone);
}

/// The methods of a kind of buffer that Python calls without pybind11's dispatch.
template <class Bound>
void register_direct(const py::handle& bound) {
  add_put_tree<Bound>(bound);
  add_ready<Bound>(bound);
}

}  // namespace echobuf::python
