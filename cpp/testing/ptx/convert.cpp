#include "ptx/convert.hpp"

#include <algorithm>
#include <cmath>

namespace echobuf::ptx {

namespace {

Conversion conversion_of(std::uint64_t setting) {
  return {static_cast<Type>(setting & 0xFF), static_cast<Type>(setting >> 8 & 0xFF),
          static_cast<Rounding>(setting >> 16 & 0xFF), (setting >> 24 & 1) != 0,
          (setting >> 25 & 1) != 0};
}

/// The least and the largest number of an integer type.
Wide least_of(Type type) {
  return is_signed(type) ? -std::ldexp(Wide{1}, static_cast<int>(bits_of(type)) - 1)
                         : 0;
}
Wide largest_of(Type type) {
  const int bits = static_cast<int>(bits_of(type)) - (is_signed(type) ? 1 : 0);
  return std::ldexp(Wide{1}, bits) - 1;
}

Wide integer_value(std::uint64_t bits, Type type) {
  const unsigned width = bits_of(type);
  if (is_signed(type))
    return static_cast<Wide>(static_cast<std::int64_t>(sign_extended(bits, width)));
  return static_cast<Wide>(low_bits(bits, width));
}

/// Of a number within the range of `type`.
std::uint64_t integer_bits_of(Wide value, Type type) {
  if (value < 0)
    return low_bits(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)),
                    bits_of(type));
  return static_cast<std::uint64_t>(value);
}

std::uint64_t clamped(Wide value, Type type) {
  return integer_bits_of(std::clamp(value, least_of(type), largest_of(type)), type);
}

std::uint64_t to_integer(std::uint64_t bits, const Conversion& c) {
  if (is_float(c.from)) {
    if (is_nan(bits, c.from)) {
      // The instruction set says so: 0 among types of up to 32 bits, else the top bit.
      const bool wide = c.from == Type::kF64 || bits_of(c.to) == 64;
      return wide ? std::uint64_t{1} << (bits_of(c.to) - 1) : 0;
    }
    return clamped(rounded_to_integer(value_of(bits, c.from), c.rounding), c.to);
  }
  if (c.saturates) return clamped(integer_value(bits, c.from), c.to);
  const unsigned width = bits_of(c.from);
  const std::uint64_t wide =
      is_signed(c.from) ? sign_extended(bits, width) : low_bits(bits, width);
  return low_bits(wide, bits_of(c.to));
}

std::uint64_t to_float(std::uint64_t bits, const Conversion& c) {
  Wide value = is_float(c.from) ? value_of(low_bits(bits, bits_of(c.from)), c.from)
                                : integer_value(bits, c.from);
  if (c.to_integer) value = rounded_to_integer(value, c.rounding);
  if (c.saturates) value = std::isnan(value) ? 0 : std::clamp<Wide>(value, 0, 1);
  const Rounding rounding = c.to_integer ? Rounding::kNearest : c.rounding;
  return rounded(value, c.to, rounding);
}

}  // namespace

std::optional<Rounding> rounding_named(std::string_view name, bool integer) {
  if (integer) {
    if (name.size() != 3 || name[2] != 'i') return std::nullopt;
    name.remove_suffix(1);
  }
  if (name == "rn") return Rounding::kNearest;
  if (name == "rz") return Rounding::kZero;
  if (name == "rm") return Rounding::kDown;
  if (name == "rp") return Rounding::kUp;
  return std::nullopt;
}

const char* wrong_with(const Conversion& c) {
  const auto convertible = [](Type type) { return is_integer(type) || is_float(type); };
  if (!convertible(c.to) || !convertible(c.from)) return "a type that has no values";
  const bool rounds = c.rounding != Rounding::kNone;
  if (!is_float(c.from)) {
    if (c.to_integer) return "an integer is no float to round to a whole number";
    if (rounds != is_float(c.to))
      return rounds ? "nothing is to be rounded" : "the rounding is missing";
    return nullptr;
  }
  if (!is_float(c.to)) {
    if (!rounds) return "the rounding is missing";
    return c.to_integer ? nullptr : "a float becomes an integer with .rni and the like";
  }
  const bool shorter = format_of(c.to).precision < format_of(c.from).precision ||
                       format_of(c.to).most < format_of(c.from).most;
  if (c.to_integer)
    return c.to == c.from ? nullptr : "a whole number has the type of its source";
  if (shorter != rounds)
    return rounds ? "nothing is to be rounded" : "the rounding is missing";
  return nullptr;
}

std::uint64_t setting_of(const Conversion& c) {
  return static_cast<std::uint64_t>(c.to) | static_cast<std::uint64_t>(c.from) << 8 |
         static_cast<std::uint64_t>(c.rounding) << 16 |
         static_cast<std::uint64_t>(c.to_integer) << 24 |
         static_cast<std::uint64_t>(c.saturates) << 25;
}

std::uint64_t converted(const std::uint64_t* in, std::uint64_t setting) {
  const Conversion conversion = conversion_of(setting);
  return is_float(conversion.to) ? to_float(in[0], conversion)
                                 : to_integer(in[0], conversion);
}

}  // namespace echobuf::ptx
