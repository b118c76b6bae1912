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
};

/// The kind of `type`. With the GIL.
Kind kind_of(PyTypeObject* type) {
  // Loops put objects of one type.
  static thread_local Kind last;
  if (last.type == type) return last;
  auto* const object = reinterpret_cast<PyObject*>(type);
  const Exchange* exchange = find_exchange(type);
  const bool is_torch = exchange == nullptr && is_tensor_of_torch(type);
  const Kind found{type, exchange, is_torch,
                   PyObject_HasAttrString(object, "requires_grad") != 0,
                   PyObject_HasAttrString(object, "is_neg") != 0 &&
                       PyObject_HasAttrString(object, "is_conj") != 0};
  Py_INCREF(object);
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

bool means_its_bytes(PyObject* item, const Kind& kind, const DlpackType& type) {
  constinit static const Name requires_grad("requires_grad");
  constinit static const Name is_neg("is_neg");
  constinit static const Name is_conj("is_conj");
  if (kind.has_gradients && is_true(PyObject_GetAttr(item, requires_grad.get())))
    return false;
  const bool is_whole = type.code == kDlpackSigned || type.code == kDlpackUnsigned ||
                        type.code == kDlpackBool;
  const bool is_complex = type.code == kDlpackComplex;
  if (!kind.is_lazy || is_whole) return true;
  if (is_true(PyObject_CallMethodNoArgs(item, is_neg.get()))) return false;
  return !is_complex || !is_true(PyObject_CallMethodNoArgs(item, is_conj.get()));
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
