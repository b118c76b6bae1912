#include "dlpack_reader.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <string>

#include "dlpack.hpp"

namespace echobuf::python {
namespace {

/// DLManagedTensorVersioned, of DLPack 1.
struct VersionedTensor {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(VersionedTensor* self);
  std::uint64_t flags;
  DlpackTensor tensor;
};

const DlpackTensor& tensor_in(PyObject* capsule) {
  // A DLManagedTensor begins with its tensor.
  if (PyCapsule_IsValid(capsule, "dltensor"))
    return *static_cast<const DlpackTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  constexpr const char* kVersioned = "dltensor_versioned";
  if (!PyCapsule_IsValid(capsule, kVersioned))
    throw py::value_error("it is no capsule of DLPack that is still to be taken over");
  const auto* versioned =
      static_cast<const VersionedTensor*>(PyCapsule_GetPointer(capsule, kVersioned));
  constexpr std::uint32_t kMajor = 1;
  if (versioned->major != kMajor)
    throw py::value_error("it is of version " + std::to_string(versioned->major) +
                          " of DLPack, of which only 1 is known");
  return versioned->tensor;
}

py::tuple as_tuple(const std::int64_t* numbers, std::int32_t count,
                   std::int64_t factor) {
  py::tuple made(count);
  for (std::int32_t i = 0; i < count; ++i) made[i] = numbers[i] * factor;
  return made;
}

}  // namespace

py::tuple read_dlpack(const py::object& capsule) {
  const DlpackTensor& tensor = tensor_in(capsule.ptr());
  const DlpackType& type = tensor.dtype;
  py::object strides = py::none();
  if (tensor.strides != nullptr)
    strides = as_tuple(tensor.strides, tensor.ndim, type.bits / 8);
  py::object name = py::none();
  if (type.lanes == 1 && type.bits % 8 == 0) name = py::cast(framework_name(type));
  return py::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data) +
                            static_cast<std::uintptr_t>(tensor.byte_offset),
                        as_tuple(tensor.shape, tensor.ndim, 1), strides, name,
                        tensor.device.type, tensor.device.id);
}

}  // namespace echobuf::python
