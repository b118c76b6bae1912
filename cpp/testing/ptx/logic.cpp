// Bits: logic, shifts, fields, permutations of bytes.
#include <algorithm>
#include <bit>

#include "ptx/compute.hpp"
#include "ptx/errors.hpp"

namespace echobuf::ptx {

namespace {

using Bits = const std::uint64_t*;

template <unsigned bits>
std::uint64_t shifted_left(Bits in, std::uint64_t) {
  return in[1] >= bits ? 0 : low_bits(in[0] << in[1], bits);
}
template <unsigned bits>
std::uint64_t shifted_right(Bits in, std::uint64_t) {
  return in[1] >= bits ? 0 : in[0] >> in[1];
}
template <unsigned bits>
std::uint64_t shifted_right_signed(Bits in, std::uint64_t) {
  const auto value = static_cast<std::int64_t>(sign_extended(in[0], bits));
  const auto amount = static_cast<int>(std::min<std::uint64_t>(in[1], bits - 1));
  return low_bits(static_cast<std::uint64_t>(value >> amount), bits);
}

/// Any logical function of three operands: bit i of its table is the result for the
/// operands' bits i / 4, i / 2 % 2, i % 2.
std::uint64_t looked_up(Bits in, std::uint64_t) {
  std::uint64_t result = 0;
  for (unsigned i = 0; i < 8; ++i) {
    if ((in[3] >> i & 1) == 0) continue;
    const std::uint64_t a = (i & 4) != 0 ? in[0] : ~in[0];
    const std::uint64_t b = (i & 2) != 0 ? in[1] : ~in[1];
    const std::uint64_t c = (i & 1) != 0 ? in[2] : ~in[2];
    result |= a & b & c;
  }
  return low_bits(result, 32);
}

/// Bytes of two words, each chosen by four bits of a third: a number from 0 to 7, and
/// whether its sign is to fill the byte.
std::uint64_t permuted(Bits in, std::uint64_t) {
  const std::uint64_t both = in[1] << 32 | in[0];
  std::uint64_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t choice = in[2] >> (4 * i) & 15;
    std::uint64_t byte = both >> (8 * (choice & 7)) & 0xFF;
    if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (8 * i);
  }
  return result;
}

template <unsigned bits, bool with_sign>
std::uint64_t extracted(Bits in, std::uint64_t) {
  const auto begin = static_cast<unsigned>(in[1] & 0xFF);
  const auto length = static_cast<unsigned>(in[2] & 0xFF);
  if (length == 0) return 0;
  // The sign is the last bit of the field that the operand has.
  const unsigned last = std::min(begin + length - 1, bits - 1);
  const bool sign = with_sign && (in[0] >> last & 1) != 0;
  const std::uint64_t field = begin < bits ? low_bits(in[0] >> begin, length) : 0;
  if (!sign) return field;
  const unsigned present = begin < bits ? std::min(length, bits - begin) : 0;
  return low_bits(field | (present < 64 ? ~std::uint64_t{0} << present : 0), bits);
}

template <unsigned bits>
std::uint64_t inserted(Bits in, std::uint64_t) {
  const auto begin = static_cast<unsigned>(in[2] & 0xFF);
  const auto length = static_cast<unsigned>(in[3] & 0xFF);
  if (begin >= bits || length == 0) return in[1];
  const std::uint64_t mask =
      low_bits(low_bits(~std::uint64_t{0}, length) << begin, bits);
  return (in[1] & ~mask) | (in[0] << begin & mask);
}

/// Two words as one of 64 bits, moved by in[2]; `setting`: 1 where the amount is taken
/// modulo 32, 0 where it is at most 32.
std::uint64_t amount_of(Bits in, std::uint64_t wraps) {
  return wraps != 0 ? in[2] & 31 : std::min<std::uint64_t>(in[2], 32);
}
std::uint64_t funnel_left(Bits in, std::uint64_t wraps) {
  const std::uint64_t both = in[1] << 32 | in[0];
  return both << amount_of(in, wraps) >> 32;
}
std::uint64_t funnel_right(Bits in, std::uint64_t wraps) {
  const std::uint64_t both = in[1] << 32 | in[0];
  return low_bits(both >> amount_of(in, wraps), 32);
}

template <unsigned bits>
Compute logic_operation(std::string_view name, Type type) {
  if (name == "and") return [](Bits in, std::uint64_t) { return in[0] & in[1]; };
  if (name == "or") return [](Bits in, std::uint64_t) { return in[0] | in[1]; };
  if (name == "xor") return [](Bits in, std::uint64_t) { return in[0] ^ in[1]; };
  if (name == "not")
    return [](Bits in, std::uint64_t) { return low_bits(~in[0], bits); };
  if constexpr (bits >= 16) {
    if (name == "shl" && is_untyped(type)) return shifted_left<bits>;
    if (name == "shr")
      return is_signed(type) ? shifted_right_signed<bits> : shifted_right<bits>;
  }
  if constexpr (bits >= 32) {
    if (name == "bfe" && is_integer(type))
      return is_signed(type) ? extracted<bits, true> : extracted<bits, false>;
    if (is_untyped(type)) {
      if (name == "bfi") return inserted<bits>;
      if (name == "popc")
        return [](Bits in, std::uint64_t) {
          return static_cast<std::uint64_t>(std::popcount(in[0]));
        };
      if (name == "clz")
        return [](Bits in, std::uint64_t) {
          return static_cast<std::uint64_t>(std::countl_zero(in[0])) - (64 - bits);
        };
      if (name == "brev")
        return [](Bits in, std::uint64_t) {
          std::uint64_t result = 0;
          for (unsigned i = 0; i < bits; ++i)
            result |= (in[0] >> i & 1) << (bits - 1 - i);
          return result;
        };
    }
  }
  if constexpr (bits == 32) {
    if (type != Type::kB32) return nullptr;
    if (name == "lop3") return looked_up;
    if (name == "prmt") return permuted;
    if (name == "shf.l") return funnel_left;
    if (name == "shf.r") return funnel_right;
  }
  return nullptr;
}

}  // namespace

Compute logic_function(std::string_view name, Type type) {
  const bool bitwise = name == "and" || name == "or" || name == "xor" || name == "not";
  if (bitwise && type != Type::kPred && !is_untyped(type)) return nullptr;
  if (is_float(type)) return nullptr;
  switch (bits_of(type)) {
    case 1:
      return logic_operation<1>(name, type);
    case 16:
      return logic_operation<16>(name, type);
    case 32:
      return logic_operation<32>(name, type);
    case 64:
      return logic_operation<64>(name, type);
    default:
      return nullptr;
  }
}

std::uint64_t same(const std::uint64_t* in, std::uint64_t) { return in[0]; }

std::uint64_t selected(const std::uint64_t* in, std::uint64_t) {
  return in[2] != 0 ? in[0] : in[1];
}

std::uint64_t into_window(const std::uint64_t* in, std::uint64_t window) {
  return in[0] + window;
}

std::uint64_t out_of_window(const std::uint64_t* in, std::uint64_t window) {
  // Compared with the space's size: half of the 64 bits is above every window.
  if (in[0] - window >= (std::uint64_t{1} << 32))
    throw Complaint{FaultKind::kOutOfBounds, "the address is not of that space"};
  return in[0] - window;
}

}  // namespace echobuf::ptx
