// Integer arithmetic. Signed overflow wraps, so all of it is done on unsigned numbers.
#include <bit>
#include <string>
#include <type_traits>

#include "ptx/compute.hpp"
#include "ptx/errors.hpp"

namespace echobuf::ptx {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T integer(std::uint64_t bits) {
  return static_cast<T>(static_cast<Unsigned<T>>(bits));
}
template <class T>
std::uint64_t integer_bits(T value) {
  return static_cast<Unsigned<T>>(value);
}

// The product of two numbers of 64 bits, for the high half.
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

template <class T>
std::uint64_t high_half(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    const auto product = static_cast<Int128>(a) * b;
    return integer_bits(static_cast<T>(product >> (8 * sizeof(T))));
  } else {
    const auto product = static_cast<Uint128>(a) * b;
    return static_cast<T>(product >> (8 * sizeof(T)));
  }
}

/// The function of one operation on numbers of type T. Below, `u` are the operands as
/// numbers of 64 bits that wrap.
template <class T>
Compute integer_operation(std::string_view name) {
  using U = Unsigned<T>;
  using In = const std::uint64_t*;
  if (name == "add")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return static_cast<U>(u[0] + u[1]);
    };
  if (name == "sub")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return static_cast<U>(u[0] - u[1]);
    };
  if (name == "mul.lo")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return static_cast<U>(u[0] * u[1]);
    };
  if (name == "mad.lo")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return static_cast<U>(u[0] * u[1] + u[2]);
    };
  if (name == "mul.hi")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return high_half(integer<T>(u[0]), integer<T>(u[1]));
    };
  if (name == "mad.hi")
    return [](In u, std::uint64_t) -> std::uint64_t {
      return static_cast<U>(high_half(integer<T>(u[0]), integer<T>(u[1])) + u[2]);
    };
  if (name == "div" || name == "rem") {
    static constexpr auto divided = [](In u, bool remainder) -> std::uint64_t {
      const T a = integer<T>(u[0]);
      const T b = integer<T>(u[1]);
      if (b == 0) throw Complaint{FaultKind::kArithmetic, "division by zero"};
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return remainder ? 0 : static_cast<U>(0 - u[0]);
      return integer_bits(static_cast<T>(remainder ? a % b : a / b));
    };
    if (name == "div") return [](In u, std::uint64_t) { return divided(u, false); };
    return [](In u, std::uint64_t) { return divided(u, true); };
  }
  if (name == "min")
    return [](In u, std::uint64_t) {
      return integer<T>(u[1]) < integer<T>(u[0]) ? u[1] : u[0];
    };
  if (name == "max")
    return [](In u, std::uint64_t) {
      return integer<T>(u[0]) < integer<T>(u[1]) ? u[1] : u[0];
    };
  if constexpr (std::is_same_v<T, std::int32_t>) {
    // Negative results become 0.
    static constexpr auto positive = [](std::uint64_t bits) -> std::uint64_t {
      return integer<T>(bits) < 0 ? 0 : bits;
    };
    if (name == "min.relu")
      return [](In u, std::uint64_t) {
        return positive(integer<T>(u[1]) < integer<T>(u[0]) ? u[1] : u[0]);
      };
    if (name == "max.relu")
      return [](In u, std::uint64_t) {
        return positive(integer<T>(u[0]) < integer<T>(u[1]) ? u[1] : u[0]);
      };
  }
  if constexpr (sizeof(T) < 8) {
    using Double = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    // In 64 bits the product of two numbers of 32 is exact; mad.wide may wrap.
    static constexpr auto product = [](In u) {
      return static_cast<std::uint64_t>(static_cast<Double>(integer<T>(u[0])) *
                                        static_cast<Double>(integer<T>(u[1])));
    };
    static constexpr unsigned kBits = 16 * sizeof(T);
    if (name == "mul.wide")
      return [](In u, std::uint64_t) { return low_bits(product(u), kBits); };
    if (name == "mad.wide")
      return [](In u, std::uint64_t) { return low_bits(product(u) + u[2], kBits); };
  }
  if constexpr (std::is_signed_v<T>) {
    if (name == "neg")
      return
          [](In u, std::uint64_t) -> std::uint64_t { return static_cast<U>(0 - u[0]); };
    if (name == "abs")
      return [](In u, std::uint64_t) -> std::uint64_t {
        return integer<T>(u[0]) < 0 ? static_cast<U>(0 - u[0]) : u[0];
      };
  }
  return nullptr;
}

}  // namespace

Compute integer_function(std::string_view name, Type type) {
  switch (type) {
    case Type::kU16:
      return integer_operation<std::uint16_t>(name);
    case Type::kU32:
      return integer_operation<std::uint32_t>(name);
    case Type::kU64:
      return integer_operation<std::uint64_t>(name);
    case Type::kS16:
      return integer_operation<std::int16_t>(name);
    case Type::kS32:
      return integer_operation<std::int32_t>(name);
    case Type::kS64:
      return integer_operation<std::int64_t>(name);
    default:
      return nullptr;
  }
}

}  // namespace echobuf::ptx
