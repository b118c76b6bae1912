#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "carried.hpp"
#include "host_buffer.hpp"
#include "register.hpp"
#include "register_methods.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::python::CarriedObjects;
using echobuf::python::ExportedLeaf;
using echobuf::python::HeldLeaves;
using echobuf::python::HostBuffer;
using echobuf::python::Structure;

namespace {

/// Of an object that is being made, nothing yet.
CarriedObjects* carried_of(PyObject* self) {
  const py::detail::value_and_holder made =
      reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  return made.holder_constructed() ? made.value_ptr<CarriedObjects>() : nullptr;
}

/// Lets Python's collector see the objects of a CarriedObjects.
void collected(PyHeapTypeObject* heap_type) {
  PyTypeObject& type = heap_type->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (const CarriedObjects* objects = carried_of(self)) Py_VISIT(objects->table());
    return 0;
  };
  type.tp_clear = [](PyObject* self) {
    if (CarriedObjects* objects = carried_of(self)) objects->clear();
    return 0;
  };
}

}  // namespace

void register_buffer(py::module_& m) {
  using echobuf::Status;
  m.attr("TIMEOUT") = static_cast<int>(Status::kTimeout);
  m.attr("CLOSED") = static_cast<int>(Status::kClosed);
  m.attr("FAILED") = static_cast<int>(Status::kFailed);
  m.attr("FINISHED") = static_cast<int>(Status::kFinished);
  m.attr("SHORT") = static_cast<int>(Status::kShort);
  m.attr("NO_MEMORY") = static_cast<int>(Status::kNoMemory);
  m.attr("BROKEN") = static_cast<int>(Status::kBroken);
  m.attr("REENTRANT") = static_cast<int>(Status::kReentrant);
  m.attr("FORKED") = echobuf::python::kForked;
  m.attr("MISMATCH") = echobuf::python::kMismatch;
  m.attr("LEFT") = echobuf::python::kLeft;
  m.attr("VERSIONS") = echobuf::python::kVersions;
  m.attr("NO_FIELD") = echobuf::kNoField;  // of a leaf of infos

  auto structure = py::class_<Structure, std::shared_ptr<Structure>>(m, "Structure");
  structure
      .def(py::init<const py::object&, py::object, py::object, std::vector<bool>>())
      .def("take_apart", &Structure::take_apart)
      .def("join",
           [](const Structure& whole, const py::list& arrays, const py::list& carried) {
             return whole.join(arrays, carried.ptr());
           });
  echobuf::python::add_trees<Structure>(structure);

  py::class_<CarriedObjects>(m, "CarriedObjects", py::custom_type_setup(collected))
      .def(py::init<py::set, std::size_t, std::uint64_t, bool>(), py::arg("kinds"),
           py::arg("leaves"), py::arg("next"), py::arg("whole"))
      .def("add",
           [](CarriedObjects& objects, const py::list& leaves, std::uint64_t n,
              bool stacked) {
             HeldLeaves held;
             held.reserve(leaves.size());
             for (const py::handle& leaf : leaves) held.add(leaf.ptr());
             objects.add_known(held, n, stacked);
           })
      .def("take", &CarriedObjects::take)
      .def("forget", &CarriedObjects::forget)
      .def("clear", &CarriedObjects::clear)
      .def("__len__", &CarriedObjects::size)
      .def_property_readonly("next", &CarriedObjects::next);

  py::class_<ExportedLeaf>(m, "ExportedLeaf")
      .def("__dlpack__",
           [](const ExportedLeaf& leaf, const py::kwargs&) { return leaf.dlpack(); })
      .def("__dlpack_device__",
           [](const ExportedLeaf&) { return py::make_tuple(1, 0); });

  echobuf::python::register_any_buffer(m);
  auto buffer = py::class_<HostBuffer, echobuf::python::AnyBuffer>(m, "Buffer")
                    .def(py::init<const py::list&, const py::list&,
                                  const BufferOptions&, std::vector<py::object>>(),
                         py::arg("leaves"), py::arg("output"), py::arg("options"),
                         py::arg("makers") = std::vector<py::object>())
                    .def_property_readonly("share_bytes", &HostBuffer::share)
                    .def("next_rows", &HostBuffer::next_rows)
                    .def("next_exported", &HostBuffer::next_exported)
                    .def("exportable", &HostBuffer::exportable);
  echobuf::python::register_direct<HostBuffer>(buffer);
  echobuf::python::add_next<HostBuffer>(buffer);
  echobuf::python::add_next_into<HostBuffer>(buffer);
}
