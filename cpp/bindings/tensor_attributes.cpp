#include "tensor_attributes.hpp"

#include <string_view>
#include <vector>

#include "name.hpp"

namespace echobuf::python {
namespace {

/// A new reference to an attribute of the module torch, which is imported.
py::object of_torch(const char* name) {
  const py::dict modules = py::module_::import("sys").attr("modules");
  return modules["torch"].attr(name);
}

/// torch's object for a type, kept for ever; null if it has none. A thread asks for
/// few.
PyObject* torch_dtype(const DlpackType& wanted) {
  struct Known {
    DlpackType type;
    PyObject* dtype;
  };
  static thread_local std::vector<Known> known;
  for (const auto& [type, dtype] : known)
    if (type.code == wanted.code && type.bits == wanted.bits) return dtype;
  PyObject* dtype = nullptr;
  if (const auto name = framework_name(wanted)) {
    try {
      dtype = of_torch(name->c_str()).release().ptr();
    } catch (py::error_already_set&) {
      // A torch that lacks this type.
    }
  }
  known.push_back({wanted, dtype});
  return dtype;
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
  static const Name name("data_ptr");
  const auto value =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(item, name.get()));
  if (!value) return false;
  address = static_cast<const std::byte*>(PyLong_AsVoidPtr(value.ptr()));
  return PyErr_Occurred() == nullptr;
}

}  // namespace

bool is_tensor_of_torch(PyTypeObject* type) {
  if (std::string_view(type->tp_name) != "Tensor") return false;
  const py::handle object(reinterpret_cast<PyObject*>(type));
  return py::str(object.attr("__module__")).equal(py::str("torch"));
}

bool view_by_attributes(PyObject* item, const DlpackType& wanted, ArrayView& view) {
  static const Name is_cpu("is_cpu");
  static const Name dtype("dtype");
  static const Name layout("layout");
  static const Name shape_name("shape");
  static const Name stride_name("stride");
  static PyObject* const strided = of_torch("strided").release().ptr();
  static thread_local std::vector<py::ssize_t> shape;
  static thread_local std::vector<py::ssize_t> strides;
  const PyObject* const type = torch_dtype(wanted);
  const std::byte* address = nullptr;
  if (type == nullptr || !is(item, dtype, type) || !is(item, is_cpu, Py_True) ||
      !is(item, layout, strided) ||
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
