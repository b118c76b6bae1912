// Floating-point arithmetic, rounded to nearest.
#include <bit>
#include <cmath>
#include <limits>

#include "ptx/compute.hpp"
#include "ptx/rounding.hpp"

namespace echobuf::ptx {

namespace {

using Bits = const std::uint64_t*;

/// Numbers of type `type` as the processor computes with them: halves as doubles.
template <Type type>
auto number(std::uint64_t bits) {
  if constexpr (type == Type::kF32)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else if constexpr (type == Type::kF64)
    return std::bit_cast<double>(bits);
  else
    return static_cast<double>(value_of(bits, type));
}

/// A NaN that arithmetic makes is the one that PTX says; of f64, the processor's.
template <Type type, class T>
std::uint64_t number_bits(T value) {
  if constexpr (type == Type::kF32)
    return std::isnan(value) ? nan_of(type) : std::bit_cast<std::uint32_t>(value);
  else if constexpr (type == Type::kF64)
    return std::bit_cast<std::uint64_t>(value);
  else
    return rounded(value, type, Rounding::kNearest);
}

constexpr bool is_half(Type type) { return type == Type::kF16 || type == Type::kBF16; }

/// The lesser operand; the other one where one is a NaN, and -0 before +0.
template <Type type, bool largest>
std::uint64_t extreme(Bits in, std::uint64_t) {
  const auto a = number<type>(in[0]);
  const auto b = number<type>(in[1]);
  if (std::isnan(a) && std::isnan(b)) return nan_of(type);
  if (std::isnan(a)) return in[1];
  if (std::isnan(b)) return in[0];
  const bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return less != largest ? in[0] : in[1];
}

template <Type type>
Compute float_operation(std::string_view name) {
  static constexpr std::uint64_t kSign = std::uint64_t{1}
                                         << (type == Type::kF64   ? 63
                                             : type == Type::kF32 ? 31
                                                                  : 15);
  if (name == "add")
    return [](Bits in, std::uint64_t) {
      if constexpr (is_half(type))
        return number_bits<type>(sum_to_odd(number<type>(in[0]), number<type>(in[1])));
      else
        return number_bits<type>(number<type>(in[0]) + number<type>(in[1]));
    };
  if (name == "sub")
    return [](Bits in, std::uint64_t) {
      if constexpr (is_half(type))
        return number_bits<type>(sum_to_odd(number<type>(in[0]), -number<type>(in[1])));
      else
        return number_bits<type>(number<type>(in[0]) - number<type>(in[1]));
    };
  if (name == "mul")
    return [](Bits in, std::uint64_t) {
      return number_bits<type>(number<type>(in[0]) * number<type>(in[1]));
    };
  if (name == "fma")
    return [](Bits in, std::uint64_t) {
      const auto a = number<type>(in[0]);
      const auto b = number<type>(in[1]);
      const auto c = number<type>(in[2]);
      if constexpr (is_half(type))  // the product of halves is an exact double
        return number_bits<type>(sum_to_odd(a * b, c));
      else
        return number_bits<type>(std::fma(a, b, c));
    };
  if (name == "neg") return [](Bits in, std::uint64_t) { return in[0] ^ kSign; };
  if (name == "abs") return [](Bits in, std::uint64_t) { return in[0] & ~kSign; };
  if (name == "min") return extreme<type, false>;
  if (name == "max") return extreme<type, true>;
  if constexpr (!is_half(type)) {
    // IEEE says what a division by zero is; the host's C++ does not.
    static constexpr auto quotient = [](auto a, auto b) -> decltype(a) {
      if (b != 0 || std::isnan(a)) return a / b;
      if (a == 0) return std::numeric_limits<decltype(a)>::quiet_NaN();
      const bool negative = std::signbit(a) != std::signbit(b);
      const auto infinity = std::numeric_limits<decltype(a)>::infinity();
      return negative ? -infinity : infinity;
    };
    if (name == "div")
      return [](Bits in, std::uint64_t) {
        return number_bits<type>(quotient(number<type>(in[0]), number<type>(in[1])));
      };
    if (name == "rcp")
      return [](Bits in, std::uint64_t) {
        const auto x = number<type>(in[0]);
        return number_bits<type>(quotient(decltype(x){1}, x));
      };
    if (name == "sqrt")
      return [](Bits in, std::uint64_t) {
        return number_bits<type>(std::sqrt(number<type>(in[0])));
      };
  }
  return nullptr;
}

}  // namespace

Compute float_function(std::string_view name, Type type) {
  switch (type) {
    case Type::kF16:
      return float_operation<Type::kF16>(name);
    case Type::kBF16:
      return float_operation<Type::kBF16>(name);
    case Type::kF32:
      return float_operation<Type::kF32>(name);
    case Type::kF64:
      return float_operation<Type::kF64>(name);
    default:
      return nullptr;
  }
}

}  // namespace echobuf::ptx
