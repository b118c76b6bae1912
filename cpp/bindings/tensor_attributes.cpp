#include "tensor_attributes.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "name.hpp"

namespace echobuf::python {
namespace {

/// An attribute of the module torch, kept for ever; null if there is none. A thread
/// asks for few. No import: that could give up the GIL.
PyObject* of_torch(const std::string& name) {
  struct Known {
    std::string name;
    PyObject* value;
  };
  static thread_local std::vector<Known> known;
  for (const Known& each : known)
    if (each.name == name) return each.value;
  constinit static const Name module_name("torch");
  const auto module =
      py::reinterpret_steal<py::object>(PyImport_GetModule(module_name.get()));
  PyObject* value =
      module ? PyObject_GetAttrString(module.ptr(), name.c_str()) : nullptr;
  PyErr_Clear();
  if (value != nullptr) known.push_back({name, value});
  return value;
}

/// torch's object for a type; null if it has none.
PyObject* torch_dtype(const DlpackType& wanted) {
  const auto name = framework_name(wanted);
  return name ? of_torch(*name) : nullptr;
}

/// True if the attribute of that name is this very object.
bool is(PyObject* item, const Name& name, const PyObject* wanted) {
  const auto value =
      py::reinterpret_steal<py::object>(PyObject_GetAttr(item, name.get()));
  return value && value.ptr() == wanted;
}

/// Reads a tuple of integers, `value`, a new reference or null.
bool read(PyObject* value, std::vector<py::ssize_t>& numbers) {
  const auto owned = py::reinterpret_steal<py::object>(value);
  if (!owned || !PyTuple_Check(value)) return false;
  numbers.clear();
  for (py::ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    numbers.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(value, i)));
  return PyErr_Occurred() == nullptr;
}

bool read_address(PyObject* item, const std::byte*& address) {
  constinit static const Name name("data_ptr");
  const auto value =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(item, name.get()));
  if (!value) return false;
  address = static_cast<const std::byte*>(PyLong_AsVoidPtr(value.ptr()));
  return PyErr_Occurred() == nullptr;
}

}  // namespace

bool is_tensor_of_torch(PyTypeObject* type) {
  if (std::string_view(type->tp_name) != "Tensor") return false;
  return of_torch("Tensor") == reinterpret_cast<PyObject*>(type);
}

bool view_by_attributes(PyObject* item, const DlpackType& wanted, ArrayView& view) {
  constinit static const Name is_cpu("is_cpu");
  constinit static const Name dtype("dtype");
  constinit static const Name layout("layout");
  constinit static const Name shape_name("shape");
  constinit static const Name stride_name("stride");
  static thread_local std::vector<py::ssize_t> shape;
  static thread_local std::vector<py::ssize_t> strides;
  const PyObject* const type = torch_dtype(wanted);
  const PyObject* const strided = of_torch("strided");
  const std::byte* address = nullptr;
  if (type == nullptr || strided == nullptr || !is(item, dtype, type) ||
      !is(item, is_cpu, Py_True) || !is(item, layout, strided) ||
      !read(PyObject_GetAttr(item, shape_name.get()), shape) ||
      !read(PyObject_CallMethodNoArgs(item, stride_name.get()), strides) ||
      strides.size() != shape.size() || !read_address(item, address)) {
    PyErr_Clear();  // who asks it from Python gets its message
    return false;
  }
  const py::ssize_t item_bytes = wanted.bits / 8;
  view = {address,      static_cast<py::ssize_t>(shape.size()),
          shape.data(), strides.data(),
          item_bytes,   item_bytes};
  return true;
}

}  // namespace echobuf::python
