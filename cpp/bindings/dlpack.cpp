#include "dlpack.hpp"

#include <array>
#include <string>
#include <utility>

namespace echobuf::python {
namespace {

/// DLManagedTensor.
struct ManagedTensor {
  DlpackTensor tensor;
  void* context;
  void (*deleter)(ManagedTensor* self);
};

// Types of torch's that NumPy lacks; codes of DLDataTypeCode (DLPack 1.1).
constexpr std::array<std::pair<std::string_view, DlpackType>, 6> kNotNumPys{{
    {"bfloat16", {kDlpackBfloat, 16, 1}},
    {"float8_e4m3fn", {10, 8, 1}},
    {"float8_e4m3fnuz", {11, 8, 1}},
    {"float8_e5m2", {12, 8, 1}},
    {"float8_e5m2fnuz", {13, 8, 1}},
    {"float8_e8m0fnu", {14, 8, 1}},
}};

/// A tensor with what it keeps alive.
struct Owned {
  ManagedTensor managed;
  std::shared_ptr<const Block> block;
  std::vector<std::int64_t> shape;
};

void drop(ManagedTensor* managed) {
  const std::unique_ptr<Owned> owned(static_cast<Owned*>(managed->context));
}

/// For a capsule that no consumer has taken over: a consumer renames it.
void drop_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  auto* managed =
      static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

}  // namespace

std::optional<DlpackType> dlpack_type(const py::dtype& dtype) {
  const auto bits = static_cast<std::uint8_t>(dtype.itemsize() * 8);
  if (dtype.byteorder() == '>') return std::nullopt;
  switch (dtype.kind()) {
    case 'i':
      return DlpackType{kDlpackSigned, bits, 1};
    case 'u':
      return DlpackType{kDlpackUnsigned, bits, 1};
    case 'f':
      if (bits > 64) return std::nullopt;
      return DlpackType{kDlpackFloat, bits, 1};
    case 'c':
      if (bits > 128) return std::nullopt;
      return DlpackType{kDlpackComplex, bits, 1};
    case 'b':
      return DlpackType{kDlpackBool, bits, 1};
    default:
      if (dtype.attr("name").cast<std::string>() == "bfloat16")
        return DlpackType{kDlpackBfloat, 16, 1};
      return std::nullopt;
  }
}

std::optional<DlpackType> dlpack_type(std::string_view name) {
  for (const auto& [known, type] : kNotNumPys)
    if (known == name) return type;
  return std::nullopt;
}

std::optional<std::string> framework_name(const DlpackType& type) {
  const auto with_bits = [&](const char* kind) {
    return kind + std::to_string(type.bits);
  };
  switch (type.code) {
    case kDlpackSigned:
      return with_bits("int");
    case kDlpackUnsigned:
      return with_bits("uint");
    case kDlpackFloat:
      return with_bits("float");
    case kDlpackComplex:
      return with_bits("complex");
    case kDlpackBool:
      return "bool";
    default:
      for (const auto& [name, known] : kNotNumPys)
        if (known.code == type.code && known.bits == type.bits)
          return std::string(name);
      return std::nullopt;
  }
}

py::capsule ExportedLeaf::dlpack() const {
  auto owned = std::make_unique<Owned>();
  owned->block = block_;
  owned->shape = shape_;
  owned->managed = {{data_,
                     {kDlpackCpu, 0},
                     static_cast<std::int32_t>(shape_.size()),
                     type_,
                     owned->shape.data(),
                     nullptr,
                     0},
                    owned.get(),
                    drop};
  auto capsule = py::reinterpret_steal<py::capsule>(
      PyCapsule_New(&owned->managed, "dltensor", drop_unused));
  if (!capsule) throw py::error_already_set();
  static_cast<void>(owned.release());
  return capsule;
}

}  // namespace echobuf::python
