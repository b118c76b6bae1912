// Types of registers, of memory and of instructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace echobuf::ptx {

enum class Type : std::uint8_t {
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBF16,
  kF32,
  kF64,
};

enum class Space : std::uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

/// None for a name that is no type, or one that this machine has no use for.
std::optional<Type> type_named(std::string_view name);
std::optional<Space> space_named(std::string_view name);

unsigned bits_of(Type type);
inline unsigned bytes_of(Type type) { return (bits_of(type) + 7) / 8; }
std::string_view name_of(Type type);

constexpr bool is_float(Type type) { return type >= Type::kF16; }
constexpr bool is_signed(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
constexpr bool is_unsigned(Type type) {
  return type >= Type::kU8 && type <= Type::kU64;
}
constexpr bool is_untyped(Type type) { return type >= Type::kB8 && type <= Type::kB64; }
constexpr bool is_integer(Type type) { return is_signed(type) || is_unsigned(type); }

/// The low `bits` of `value`.
constexpr std::uint64_t low_bits(std::uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

/// The low `bits` as a signed number, in 64 bits.
constexpr std::uint64_t sign_extended(std::uint64_t value, unsigned bits) {
  if (bits >= 64) return value;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return (low_bits(value, bits) ^ sign) - sign;
}

}  // namespace echobuf::ptx
