#include "ptx/types.hpp"

#include <algorithm>
#include <array>

namespace echobuf::ptx {

namespace {

struct TypeRow {
  std::string_view name;
  Type type;
  unsigned bits;
};

constexpr std::array<TypeRow, 17> kTypes{{
    {"pred", Type::kPred, 1},
    {"b8", Type::kB8, 8},
    {"b16", Type::kB16, 16},
    {"b32", Type::kB32, 32},
    {"b64", Type::kB64, 64},
    {"u8", Type::kU8, 8},
    {"u16", Type::kU16, 16},
    {"u32", Type::kU32, 32},
    {"u64", Type::kU64, 64},
    {"s8", Type::kS8, 8},
    {"s16", Type::kS16, 16},
    {"s32", Type::kS32, 32},
    {"s64", Type::kS64, 64},
    {"f16", Type::kF16, 16},
    {"bf16", Type::kBF16, 16},
    {"f32", Type::kF32, 32},
    {"f64", Type::kF64, 64},
}};

const TypeRow& type_row(Type type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

std::optional<Type> type_named(std::string_view name) {
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(),
                   [&](const TypeRow& row) { return row.name == name; });
  if (found == kTypes.end()) return std::nullopt;
  return found->type;
}

std::optional<Space> space_named(std::string_view name) {
  if (name == "global") return Space::kGlobal;
  if (name == "shared") return Space::kShared;
  if (name == "local") return Space::kLocal;
  if (name == "param") return Space::kParam;
  if (name == "const") return Space::kConst;
  return std::nullopt;
}

unsigned bits_of(Type type) { return type_row(type).bits; }
std::string_view name_of(Type type) { return type_row(type).name; }

}  // namespace echobuf::ptx
