#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "device_buffer.hpp"
#include "dlpack_reader.hpp"
#include "register.hpp"
#include "register_methods.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::python::DeviceBuffer;
using echobuf::python::DeviceHandle;

namespace {

py::tuple needs_of(const BufferOptions& options) {
  const echobuf::BufferNeeds needs = echobuf::python::DeviceCore::needs(options);
  return py::make_tuple(needs.slots, needs.bytes_per_slot, needs.batches,
                        needs.bytes_per_batch, needs.more);
}

}  // namespace

void register_device(py::module_& m) {
  m.attr("TWICE") = static_cast<int>(echobuf::Status::kTwice);
  m.attr("CAPTURING") = static_cast<int>(echobuf::Status::kCapturing);
  m.attr("RESIZE") = static_cast<int>(echobuf::Status::kResize);

  // (code, text): Python says what to do about it.
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> error;
  error.call_once_and_store_result(
      [&] { return py::object(py::exception<echobuf::cuda::Error>(m, "CudaError")); });
  // NOLINTNEXTLINE(performance-unnecessary-value-param): what pybind11 wants
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const echobuf::cuda::Error& e) {
      const py::tuple arguments = py::make_tuple(e.code(), e.what());
      PyErr_SetObject(error.get_stored().ptr(), arguments.ptr());
    }
  });

  m.def("load_driver", [](const std::string& library) {
    echobuf::cuda::Driver::load(library.c_str());
  });
  m.def("read_dlpack", &echobuf::python::read_dlpack);
  py::class_<DeviceHandle>(m, "Device")
      .def(py::init<const std::string&, int>(), py::arg("library"), py::arg("ordinal"))
      .def("memory", &DeviceHandle::memory)
      .def("exchange_capture_mode", &DeviceHandle::exchange_capture_mode)
      .def("is_capturing", &DeviceHandle::is_capturing);

  auto buffer =
      py::class_<DeviceBuffer, echobuf::python::AnyBuffer>(m, "DeviceBuffer")
          .def(py::init<const py::list&, const py::list&, const BufferOptions&,
                        const DeviceHandle&, const DeviceBuffer::Handles&,
                        const DeviceBuffer::StageHandles&>(),
               py::arg("leaves"), py::arg("output"), py::arg("options"),
               py::arg("device"), py::arg("kernels"), py::arg("stages"))
          .def_property_readonly("share_bytes", &DeviceBuffer::share)
          .def("put_on_device", &DeviceBuffer::put_on_device, py::arg("arrays"),
               py::arg("placed"), py::arg("stacked"), py::arg("timeout_s"),
               py::arg("version"), py::arg("stream"), py::arg("others"),
               py::arg("done") = 0)
          .def("arrived", &DeviceBuffer::arrived)
          .def("next_at", &DeviceBuffer::next_at, py::arg("addresses"),
               py::arg("stream"), py::arg("timeout_s"), py::arg("records") = py::none())
          .def("next_rows", &DeviceBuffer::next_rows, py::arg("memory"), py::arg("ids"),
               py::arg("count"), py::arg("room"), py::arg("stream"),
               py::arg("timeout_s"), py::arg("records") = py::none())
          .def("before_replay", &DeviceBuffer::before_replay)
          .def("notice_loss", &DeviceBuffer::notice_loss)
          .def("error", &DeviceBuffer::error)
          .def_static("staging_bytes", &echobuf::cuda::DeviceBackend::staging_bytes)
          .def_static("host_bytes", &echobuf::cuda::DeviceBackend::host_bytes)
          .def_static("needs", &needs_of);
  echobuf::python::register_direct<DeviceBuffer>(buffer);
}
