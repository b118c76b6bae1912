// Comparisons.
#include <cmath>

#include "ptx/compute.hpp"
#include "ptx/rounding.hpp"

namespace echobuf::ptx {

namespace {

using Bits = const std::uint64_t*;
enum class Order : int { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

template <Type type>
int order_of(Bits in) {
  const auto order = [](auto a, auto b) {
    if (a < b) return static_cast<int>(Order::kLess);
    if (a == b) return static_cast<int>(Order::kEqual);
    if (a > b) return static_cast<int>(Order::kGreater);
    return static_cast<int>(Order::kUnordered);
  };
  if constexpr (is_float(type)) {
    return order(value_of(in[0], type), value_of(in[1], type));
  } else if constexpr (is_signed(type)) {
    const unsigned bits = type == Type::kS16 ? 16 : type == Type::kS32 ? 32 : 64;
    return order(static_cast<std::int64_t>(sign_extended(in[0], bits)),
                 static_cast<std::int64_t>(sign_extended(in[1], bits)));
  } else {
    return order(in[0], in[1]);
  }
}

/// True for the orders in the set `orders`.
template <Type type, int orders>
std::uint64_t compared(Bits in, std::uint64_t) {
  return (order_of<type>(in) & orders) != 0 ? 1 : 0;
}

template <Type type>
Compute comparison(std::string_view name) {
  if (name == "eq") return compared<type, 2>;
  if (name == "ne") return compared<type, 5>;
  if constexpr (is_untyped(type)) return nullptr;
  if (name == "lt") return compared<type, 1>;
  if (name == "le") return compared<type, 3>;
  if (name == "gt") return compared<type, 4>;
  if (name == "ge") return compared<type, 6>;
  if constexpr (is_unsigned(type)) {
    if (name == "lo") return compared<type, 1>;
    if (name == "ls") return compared<type, 3>;
    if (name == "hi") return compared<type, 4>;
    if (name == "hs") return compared<type, 6>;
  }
  if constexpr (is_float(type)) {
    if (name == "equ") return compared<type, 10>;
    if (name == "neu") return compared<type, 13>;
    if (name == "ltu") return compared<type, 9>;
    if (name == "leu") return compared<type, 11>;
    if (name == "gtu") return compared<type, 12>;
    if (name == "geu") return compared<type, 14>;
    if (name == "num") return compared<type, 7>;
    if (name == "nan") return compared<type, 8>;
  }
  return nullptr;
}

}  // namespace

Compute comparison_function(std::string_view name, Type type) {
  switch (type) {
    case Type::kB16:
      return comparison<Type::kB16>(name);
    case Type::kB32:
      return comparison<Type::kB32>(name);
    case Type::kB64:
      return comparison<Type::kB64>(name);
    case Type::kU16:
      return comparison<Type::kU16>(name);
    case Type::kU32:
      return comparison<Type::kU32>(name);
    case Type::kU64:
      return comparison<Type::kU64>(name);
    case Type::kS16:
      return comparison<Type::kS16>(name);
    case Type::kS32:
      return comparison<Type::kS32>(name);
    case Type::kS64:
      return comparison<Type::kS64>(name);
    case Type::kF16:
      return comparison<Type::kF16>(name);
    case Type::kBF16:
      return comparison<Type::kBF16>(name);
    case Type::kF32:
      return comparison<Type::kF32>(name);
    case Type::kF64:
      return comparison<Type::kF64>(name);
    default:
      return nullptr;
  }
}

}  // namespace echobuf::ptx
