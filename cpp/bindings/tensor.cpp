#include "tensor.hpp"

#include <utility>

#include "dlpack_exchange.hpp"
#include "name.hpp"
#include "tensor_attributes.hpp"

namespace echobuf::python {
namespace {

/// The ways to read objects of a type.
struct Kind {
  PyTypeObject* type = nullptr;  // kept alive
  const Exchange* exchange = nullptr;
  bool is_torch = false;  // without an exchange
  bool has_gradients = false;
  bool is_lazy = false;  // it may have yet to negate or to conjugate
  // The type's functions in C, called without Python's look-up of their names; null
  // where they are Python's.
  const PyGetSetDef* requires_grad = nullptr;
  const PyMethodDef* is_neg = nullptr;
  const PyMethodDef* is_conj = nullptr;
};

/// The attribute of a type; none if it has none.
py::object attribute_of(PyTypeObject* type, const char* name) {
  auto found = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
  PyErr_Clear();
  return found;
}

const PyGetSetDef* property_in_c(const py::object& found) {
  if (!found || !Py_IS_TYPE(found.ptr(), &PyGetSetDescr_Type)) return nullptr;
  return reinterpret_cast<PyGetSetDescrObject*>(found.ptr())->d_getset;
}

/// A method without arguments.
const PyMethodDef* method_in_c(const py::object& found) {
  if (!found || !Py_IS_TYPE(found.ptr(), &PyMethodDescr_Type)) return nullptr;
  const auto* method = reinterpret_cast<PyMethodDescrObject*>(found.ptr())->d_method;
  return method->ml_flags == METH_NOARGS ? method : nullptr;
}

/// The kind of `type`. With the GIL.
Kind kind_of(PyTypeObject* type) {
  // Loops put objects of one type.
  static thread_local Kind last;
  if (last.type == type) return last;
  const Exchange* exchange = find_exchange(type);
  const bool is_torch = exchange == nullptr && is_tensor_of_torch(type);
  const py::object requires_grad = attribute_of(type, "requires_grad");
  const py::object is_neg = attribute_of(type, "is_neg");
  const py::object is_conj = attribute_of(type, "is_conj");
  const Kind found{type,
                   exchange,
                   is_torch,
                   static_cast<bool>(requires_grad),
                   is_neg && is_conj,
                   property_in_c(requires_grad),
                   method_in_c(is_neg),
                   method_in_c(is_conj)};
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  const Kind before = std::exchange(last, found);
  Py_XDECREF(reinterpret_cast<PyObject*>(before.type));  // last: code may run, and put
  return found;
}

/// True if `value`, a new reference, is; an error counts as that.
bool is_true(PyObject* value) {
  const auto owned = py::reinterpret_steal<py::object>(value);
  if (owned.ptr() == Py_False) return false;
  PyErr_Clear();
  return true;
}

bool asks_for_gradient(PyObject* item, const PyGetSetDef* property) {
  constinit static const Name name("requires_grad");
  return is_true(property != nullptr ? property->get(item, property->closure)
                                     : PyObject_GetAttr(item, name.get()));
}

bool says_yes(PyObject* item, const PyMethodDef* method, const Name& name) {
  return is_true(method != nullptr ? method->ml_meth(item, nullptr)
                                   : PyObject_CallMethodNoArgs(item, name.get()));
}

bool means_its_bytes(PyObject* item, const Kind& kind, const DlpackType& type) {
  constinit static const Name is_neg("is_neg");
  constinit static const Name is_conj("is_conj");
  // torch gives whole numbers no gradient, and negates them at once.
  const bool is_whole = type.code == kDlpackSigned || type.code == kDlpackUnsigned ||
                        type.code == kDlpackBool;
  if (is_whole) return true;
  if (kind.has_gradients && asks_for_gradient(item, kind.requires_grad)) return false;
  if (!kind.is_lazy) return true;
  if (says_yes(item, kind.is_neg, is_neg)) return false;
  return type.code != kDlpackComplex || !says_yes(item, kind.is_conj, is_conj);
}

}  // namespace

bool view_tensor(PyObject* item, const DlpackType& wanted, ArrayView& view,
                 const DlpackDevice& device) {
  const Kind kind = kind_of(Py_TYPE(item));
  if (kind.exchange != nullptr) {
    if (!view_by_exchange(item, *kind.exchange, wanted, device, view)) return false;
  } else if (device != kCpu || !kind.is_torch ||
             !view_by_attributes(item, wanted, view)) {
    return false;
  }
  return means_its_bytes(item, kind, wanted);
}

}  // namespace echobuf::python
