#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/platform.hpp"
#include "echobuf/transform/exact.hpp"

// The types of numbers that leaves have, and how they become 32-bit floats and back.

namespace echobuf::transform {

enum class NumberType : uint32_t {
  kBool,
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kOther,  // moved as bytes, never read
};

// ---- 16-bit floats: to the nearest, of two the even one; one NaN

ECHOBUF_HD inline uint16_t half_of(float value) {
  const uint32_t word = exact::bits(value);
  const uint32_t sign = word >> 16 & 0x8000u;
  const uint32_t size = word & 0x7FFFFFFFu;
  // Below 2^-14: the sum with 1/2 has its last bit at 2^-24, as the result does.
  const uint32_t small = exact::bits(exact::float_of(size) + 0.5f) - exact::bits(0.5f);
  const uint32_t rounded = size + 0xFFFu + (size >> 13 & 1u);
  uint32_t half = (rounded - (112u << 23)) >> 13;
  half = size < 0x38800000u ? small : half;
  half = rounded >= 0x47800000u ? 0x7C00u : half;  // from 65,520 on
  half = size > 0x7F800000u ? 0x7E00u : half;
  return static_cast<uint16_t>(sign | half);
}

ECHOBUF_HD inline float float_of_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t shifted = static_cast<uint32_t>(half & 0x7FFFu) << 13;
  const uint32_t exponent = shifted & 0x0F800000u;
  const uint32_t normal = shifted + (112u << 23);
  const uint32_t special = normal + (112u << 23);
  const uint32_t small =
      exact::bits(exact::float_of(normal + (1u << 23)) - exact::float_of(113u << 23));
  uint32_t word = exponent == 0 ? small : normal;
  word = exponent == 0x0F800000u ? special : word;
  return exact::float_of(sign | word);
}

ECHOBUF_HD inline uint16_t bfloat_of(float value) {
  const uint32_t word = exact::bits(value);
  const uint32_t rounded = (word + 0x7FFFu + (word >> 16 & 1u)) >> 16;
  const bool nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(nan ? (word >> 16 & 0x8000u) | 0x7FC0u : rounded);
}

ECHOBUF_HD inline float float_of_bfloat(uint16_t word) {
  return exact::float_of(static_cast<uint32_t>(word) << 16);
}

// ---- each type as it lies in memory

struct Half {
  uint16_t word;
  ECHOBUF_HD operator float() const { return float_of_half(word); }
  ECHOBUF_HD static Half of(float value) { return {half_of(value)}; }
};
struct Bfloat {
  uint16_t word;
  ECHOBUF_HD operator float() const { return float_of_bfloat(word); }
  ECHOBUF_HD static Bfloat of(float value) { return {bfloat_of(value)}; }
};

/// A float as `T`; the operations have brought it into range.
template <class T>
ECHOBUF_HD T number_of(float value) {
  if constexpr (requires { T::of(value); })
    return T::of(value);
  else
    return static_cast<T>(value);
}

template <class T>
struct TypeTag {
  using Type = T;
};

/// Calls `use` with the tag of a type.
template <class Use>
ECHOBUF_HD auto with_type(NumberType type, Use&& use) {
  switch (type) {
    case NumberType::kBool:
    case NumberType::kUint8:
      return use(TypeTag<uint8_t>{});
    case NumberType::kInt8:
      return use(TypeTag<signed char>{});
    case NumberType::kUint16:
      return use(TypeTag<uint16_t>{});
    case NumberType::kInt16:
      return use(TypeTag<short>{});
    case NumberType::kUint32:
      return use(TypeTag<uint32_t>{});
    case NumberType::kInt32:
      return use(TypeTag<int32_t>{});
    case NumberType::kUint64:
      return use(TypeTag<uint64_t>{});
    case NumberType::kInt64:
      return use(TypeTag<int64_t>{});
    case NumberType::kFloat16:
      return use(TypeTag<Half>{});
    case NumberType::kBfloat16:
      return use(TypeTag<Bfloat>{});
    case NumberType::kFloat64:
      return use(TypeTag<double>{});
    default:
      return use(TypeTag<float>{});
  }
}

ECHOBUF_HD inline float load_number(NumberType type, uint64_t address) {
  return with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return static_cast<float>(device::load<T>(address));
  });
}

ECHOBUF_HD inline void store_number(NumberType type, uint64_t address, float value) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    device::store(address, number_of<T>(value));
  });
}

}  // namespace echobuf::transform
