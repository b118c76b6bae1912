// Leaves of a batch as DLPack tensors: what lets go of one needs no Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "echobuf/draw/batch_pool.hpp"

namespace echobuf::python {

namespace py = pybind11;

/// DLDataType of DLPack's ABI (https://dmlc.github.io/dlpack/latest/c_api.html).
struct DlpackType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

// Codes of DlpackType.
inline constexpr std::uint8_t kDlpackSigned = 0;
inline constexpr std::uint8_t kDlpackUnsigned = 1;
inline constexpr std::uint8_t kDlpackFloat = 2;
inline constexpr std::uint8_t kDlpackBfloat = 4;
inline constexpr std::uint8_t kDlpackComplex = 5;
inline constexpr std::uint8_t kDlpackBool = 6;

// DLDeviceType.
inline constexpr std::int32_t kDlpackCpu = 1;
inline constexpr std::int32_t kDlpackCuda = 2;

/// DLDevice.
struct DlpackDevice {
  std::int32_t type;
  std::int32_t id;

  friend bool operator==(const DlpackDevice&, const DlpackDevice&) = default;
};

/// DLTensor.
struct DlpackTensor {
  void* data;
  DlpackDevice device;
  std::int32_t ndim;
  DlpackType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // null: contiguous, the last axis first
  std::uint64_t byte_offset;
};

/// None where DLPack has none for it.
std::optional<DlpackType> dlpack_type(const py::dtype& dtype);

/// Of a type of torch's that NumPy lacks, by its name there; none for all others.
std::optional<DlpackType> dlpack_type(std::string_view name);

/// The name that torch, NumPy and JAX have for a type of theirs.
std::optional<std::string> framework_name(const DlpackType& type);

/// A leaf on the CPU that others take over by `__dlpack__`. The block goes back to its
/// pool when the last leaf, and the last tensor that was made of one, is gone: on
/// whatever thread that is, with the GIL or without.
class ExportedLeaf {
 public:
  ExportedLeaf(std::shared_ptr<const Block> block, std::byte* data, DlpackType type,
               std::vector<std::int64_t> shape)
      : block_(std::move(block)), data_(data), type_(type), shape_(std::move(shape)) {}

  /// A capsule "dltensor".
  py::capsule dlpack() const;

 private:
  std::shared_ptr<const Block> block_;
  std::byte* data_;
  DlpackType type_;
  std::vector<std::int64_t> shape_;
};

}  // namespace echobuf::python
