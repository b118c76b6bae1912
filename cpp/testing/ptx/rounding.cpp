#include "ptx/rounding.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace echobuf::ptx {

static_assert(std::numeric_limits<Wide>::digits >= 64);

int Format::exponent_bits() const {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(most))) + 1;
}

Format format_of(Type type) {
  if (type == Type::kF16) return {11, -14, 15};
  if (type == Type::kBF16) return {8, -126, 127};
  if (type == Type::kF32) return {24, -126, 127};
  return {53, -1022, 1023};
}

std::uint64_t nan_of(Type type) {
  if (type == Type::kF16 || type == Type::kBF16) return 0x7FFF;
  if (type == Type::kF32) return 0x7FFFFFFF;
  return 0x7FFFFFFFFFFFFFFF;
}

bool is_nan(std::uint64_t bits, Type type) {
  const Format format = format_of(type);
  const std::uint64_t infinity = low_bits(~std::uint64_t{0}, format.exponent_bits())
                                 << format.fraction();
  return low_bits(bits, bits_of(type) - 1) > infinity;
}

Wide value_of(std::uint64_t bits, Type type) {
  if (type == Type::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (type == Type::kF64) return std::bit_cast<double>(bits);
  const Format format = format_of(type);
  const std::uint64_t fraction = low_bits(bits, format.fraction());
  const auto exponent =
      static_cast<int>(low_bits(bits >> format.fraction(), format.exponent_bits()));
  const Wide sign = (bits >> (bits_of(type) - 1) & 1) != 0 ? -1 : 1;
  if (exponent > format.most + format.most) {
    return fraction != 0 ? std::numeric_limits<Wide>::quiet_NaN()
                         : sign * std::numeric_limits<Wide>::infinity();
  }
  const bool normal = exponent > 0;
  const std::uint64_t whole =
      fraction | (normal ? std::uint64_t{1} << format.fraction() : 0);
  const int scale =
      (normal ? exponent - format.most : format.least) - format.fraction();
  return sign * std::ldexp(static_cast<Wide>(whole), scale);
}

Wide rounded_to_integer(Wide value, Rounding rounding) {
  if (!std::isfinite(value)) return value;
  Wide result = std::trunc(value);
  const Wide rest = value - result;  // exact
  if (rest == 0) return value;       // keeps the sign of 0
  const Wide away = result + (value < 0 ? -1 : 1);
  switch (rounding) {
    case Rounding::kNearest: {
      const bool odd = std::fmod(result, Wide{2}) != 0;
      if (std::fabs(rest) > 0.5L || (std::fabs(rest) == 0.5L && odd)) result = away;
      break;
    }
    case Rounding::kDown:
      if (value < 0) result = away;
      break;
    case Rounding::kUp:
      if (value > 0) result = away;
      break;
    case Rounding::kZero:
    case Rounding::kNone:
      break;
  }
  return std::copysign(result, value);
}

std::uint64_t rounded(Wide value, Type type, Rounding rounding) {
  if (std::isnan(value)) return nan_of(type);
  const Format format = format_of(type);
  const std::uint64_t sign =
      std::signbit(value) ? std::uint64_t{1} << (bits_of(type) - 1) : 0;
  const std::uint64_t infinity = low_bits(~std::uint64_t{0}, format.exponent_bits())
                                 << format.fraction();
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = std::ilogb(value);
  if (exponent < format.least) exponent = format.least;
  const int scale = exponent - format.fraction();
  Wide whole = std::fabs(rounded_to_integer(std::ldexp(value, -scale), rounding));
  if (whole == std::ldexp(Wide{1}, format.precision)) {
    whole /= 2;
    ++exponent;
  }
  if (exponent > format.most) {
    const bool outward = rounding == Rounding::kNearest ||
                         rounding == Rounding::kNone ||
                         (rounding == Rounding::kUp && sign == 0) ||
                         (rounding == Rounding::kDown && sign != 0);
    return sign | (outward ? infinity : infinity - 1);
  }
  const auto bits = static_cast<std::uint64_t>(whole);
  const std::uint64_t hidden = std::uint64_t{1} << format.fraction();
  if (bits < hidden) return sign | bits;  // below the normal numbers
  const auto biased = static_cast<std::uint64_t>(exponent + format.most);
  return sign | biased << format.fraction() | (bits - hidden);
}

double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  // The exact sum lies between two doubles, of which one is odd: take that one.
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

}  // namespace echobuf::ptx
