#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "python_buffer.hpp"
#include "register.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::python::PythonBuffer;

void register_buffer(py::module_& m) {
  using echobuf::Status;
  m.attr("TIMEOUT") = static_cast<int>(Status::kTimeout);
  m.attr("CLOSED") = static_cast<int>(Status::kClosed);
  m.attr("FAILED") = static_cast<int>(Status::kFailed);
  m.attr("FINISHED") = static_cast<int>(Status::kFinished);
  m.attr("SHORT") = static_cast<int>(Status::kShort);
  m.attr("NO_MEMORY") = static_cast<int>(Status::kNoMemory);
  m.attr("REENTRANT") = static_cast<int>(Status::kReentrant);
  m.attr("FORKED") = echobuf::python::kForked;
  m.attr("MISMATCH") = echobuf::python::kMismatch;
  m.attr("LEFT") = echobuf::python::kLeft;

  py::class_<BufferOptions>(m, "BufferOptions")
      .def(py::init(&PythonBuffer::options), py::kw_only(), py::arg("leaves"),
           py::arg("ragged"), py::arg("batch_size"), py::arg("window"),
           py::arg("factor"), py::arg("max_factor"), py::arg("seed"), py::arg("epoch"),
           py::arg("drop_last"), py::arg("prefetch"))
      .def("needs",
           [](const BufferOptions& options) {
             const echobuf::BufferNeeds needs = echobuf::Buffer::needs(options);
             return py::make_tuple(needs.slots, needs.bytes_per_slot, needs.batches,
                                   needs.bytes_per_batch);
           })
      .def_readwrite("idle", &BufferOptions::idle);

  py::class_<PythonBuffer>(m, "Buffer")
      .def(py::init<const py::list&, const BufferOptions&>(), py::arg("leaves"),
           py::arg("options"))
      .def("put", &PythonBuffer::put)
      .def("next", &PythonBuffer::next)
      .def("next_into", &PythonBuffer::next_into)
      .def("ready", &PythonBuffer::ready)
      .def("close", &PythonBuffer::close)
      .def("fail", &PythonBuffer::fail)
      .def("reset", &PythonBuffer::reset)
      .def("draining", &PythonBuffer::draining)
      .def("open_ahead", &PythonBuffer::open_ahead)
      .def("go_ahead", &PythonBuffer::go_ahead)
      .def("checkpoint", &PythonBuffer::checkpoint)
      .def("restore", &PythonBuffer::restore)
      .def("stats", &PythonBuffer::stats)
      .def("release", &PythonBuffer::release);
}
