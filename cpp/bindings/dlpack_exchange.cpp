#include "dlpack_exchange.hpp"

#include <cstdint>

#include "name.hpp"
#include "tensor_attributes.hpp"

namespace echobuf::python {
namespace {

/// DLPackExchangeAPIHeader and DLPackExchangeAPI (DLPack 1.3, dlpack.h).
struct ExchangeHeader {
  std::uint32_t major;
  std::uint32_t minor;
  const ExchangeHeader* older;
};
struct Exchange {
  ExchangeHeader header;
  void* allocate;
  void* export_managed;
  void* import_managed;
  int (*describe)(void* object, DlpackTensor* tensor);  // null: not offered
  void* current_stream;
};
constexpr std::uint32_t kMajor = 1;

/// What is known of a type of tensors.
struct Kind {
  PyTypeObject* type = nullptr;  // kept alive
  const Exchange* exchange = nullptr;
  bool is_torch = false;  // without an exchange
  bool has_gradients = false;
  bool is_lazy = false;  // it may have yet to negate or to conjugate
};

const Exchange* find_exchange(PyTypeObject* type) {
  // Of this very type: those derived from it can mean more than their bytes say.
  const auto names =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type))
          .attr("__dict__");
  constexpr const char* kName = "__dlpack_c_exchange_api__";
  if (!names.contains(kName)) return nullptr;
  const py::object capsule = names[kName];
  constexpr const char* kCapsule = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), kCapsule)) return nullptr;
  const auto* header =
      static_cast<const ExchangeHeader*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  while (header != nullptr && header->major != kMajor) header = header->older;
  const auto* exchange = reinterpret_cast<const Exchange*>(header);
  return exchange == nullptr || exchange->describe == nullptr ? nullptr : exchange;
}

/// The kind of `type`. With the GIL.
const Kind& kind_of(PyTypeObject* type) {
  // Loops put objects of one type.
  static thread_local Kind last;
  if (last.type == type) return last;
  const Exchange* exchange = find_exchange(type);
  const bool is_torch = exchange == nullptr && is_tensor_of_torch(type);
  auto* const object = reinterpret_cast<PyObject*>(type);
  Py_INCREF(object);
  Py_XDECREF(reinterpret_cast<PyObject*>(last.type));
  last = {type, exchange, is_torch,
          PyObject_HasAttrString(object, "requires_grad") != 0,
          PyObject_HasAttrString(object, "is_neg") != 0 &&
              PyObject_HasAttrString(object, "is_conj") != 0};
  return last;
}

/// Whether `value`, a new reference, is true; an error counts as that.
bool is_true(PyObject* value) {
  const auto owned = py::reinterpret_steal<py::object>(value);
  if (owned.ptr() == Py_False) return false;
  PyErr_Clear();
  return true;
}

bool means_its_bytes(PyObject* item, const Kind& kind, const DlpackType& type) {
  static const Name requires_grad("requires_grad");
  static const Name is_neg("is_neg");
  static const Name is_conj("is_conj");
  if (kind.has_gradients && is_true(PyObject_GetAttr(item, requires_grad.get())))
    return false;
  const bool is_whole = type.code == kDlpackSigned || type.code == kDlpackUnsigned ||
                        type.code == kDlpackBool;
  const bool is_complex = type.code == kDlpackComplex;
  if (!kind.is_lazy || is_whole) return true;
  if (is_true(PyObject_CallMethodNoArgs(item, is_neg.get()))) return false;
  return !is_complex || !is_true(PyObject_CallMethodNoArgs(item, is_conj.get()));
}

bool describe(PyObject* item, const Exchange& exchange, const DlpackType& wanted,
              ArrayView& view) {
  DlpackTensor tensor{};
  if (exchange.describe(item, &tensor) != 0) {
    PyErr_Clear();  // who asks it from Python gets its message
    return false;
  }
  const DlpackType& type = tensor.dtype;
  if (tensor.device.type != kDlpackCpu || type.code != wanted.code ||
      type.bits != wanted.bits || type.lanes != wanted.lanes)
    return false;
  const py::ssize_t item_bytes = type.bits / 8;
  static_assert(sizeof(py::ssize_t) == sizeof(std::int64_t));
  view = {static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
          tensor.ndim,
          reinterpret_cast<const py::ssize_t*>(tensor.shape),
          reinterpret_cast<const py::ssize_t*>(tensor.strides),
          item_bytes,
          item_bytes};
  return true;
}

}  // namespace

bool view_tensor(PyObject* item, const DlpackType& wanted, ArrayView& view) {
  const Kind& kind = kind_of(Py_TYPE(item));
  if (kind.exchange == nullptr && !kind.is_torch) return false;
  const bool is_there = kind.exchange != nullptr
                            ? describe(item, *kind.exchange, wanted, view)
                            : view_by_attributes(item, wanted, view);
  return is_there && means_its_bytes(item, kind, wanted);
}

}  // namespace echobuf::python
