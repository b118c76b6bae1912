#include "dlpack_exchange.hpp"

namespace echobuf::python {

const Exchange* find_exchange(PyTypeObject* type) {
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
  constexpr std::uint32_t kMajor = 1;
  while (header != nullptr && header->major != kMajor) header = header->older;
  const auto* exchange = reinterpret_cast<const Exchange*>(header);
  return exchange == nullptr || exchange->describe == nullptr ? nullptr : exchange;
}

bool view_by_exchange(PyObject* item, const Exchange& exchange,
                      const DlpackType& wanted, const DlpackDevice& device,
                      ArrayView& view) {
  DlpackTensor tensor{};
  if (exchange.describe(item, &tensor) != 0) {
    PyErr_Clear();  // who asks it from Python gets its message
    return false;
  }
  const DlpackType& type = tensor.dtype;
  if (tensor.device != device || type.code != wanted.code || type.bits != wanted.bits ||
      type.lanes != wanted.lanes)
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

}  // namespace echobuf::python
