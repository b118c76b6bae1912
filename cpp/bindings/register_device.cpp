#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "device_buffer.hpp"
#include "ragged_device_buffer.hpp"
#include "register.hpp"
#include "register_methods.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::python::DeviceBuffer;
using echobuf::python::DeviceHandle;

namespace {

template <class Core>
py::tuple needs_of(const BufferOptions& options) {
  const echobuf::BufferNeeds needs = Core::needs(options);
  return py::make_tuple(needs.slots, needs.bytes_per_slot, needs.batches,
                        needs.bytes_per_batch, needs.more);
}

void register_rows(py::module_& m) {
  using Bound = echobuf::python::RaggedDeviceBuffer;
  auto buffer =
      py::class_<Bound, echobuf::python::AnyBuffer>(m, "RaggedDeviceBuffer")
          .def(py::init<const py::list&, const py::list&, const BufferOptions&,
                        const DeviceHandle&, const DeviceBuffer::Handles&,
                        const DeviceBuffer::StageHandles&>(),
               py::arg("leaves"), py::arg("output"), py::arg("options"),
               py::arg("device"), py::arg("kernels"), py::arg("stages"))
          .def_property_readonly("share_bytes", &Bound::share)
          .def("next_at", &Bound::next_at)
          .def("before_replay", &Bound::before_replay)
          .def("notice_loss", &Bound::notice_loss)
          .def("error", &Bound::error)
          .def_static("staging_bytes",
                      &echobuf::cuda::DevicePayloadBackend::staging_bytes)
          .def_static("needs", &needs_of<echobuf::python::RaggedDeviceCore>);
  echobuf::python::register_direct<Bound>(buffer);
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
          .def("next_at", &DeviceBuffer::next_at)
          .def("before_replay", &DeviceBuffer::before_replay)
          .def("notice_loss", &DeviceBuffer::notice_loss)
          .def("error", &DeviceBuffer::error)
          .def_static(
              "staging_bytes",
              [](const BufferOptions& options) {
                const echobuf::RecordLayout record(options.fields, options.ragged);
                return echobuf::cuda::staging_slots(options, record) * record.stride();
              })
          .def_static("needs", &needs_of<echobuf::python::DeviceCore>);
  echobuf::python::register_direct<DeviceBuffer>(buffer);
  register_rows(m);
}
