// IEEE rounding into any of the formats, without the processor's rounding mode.
#pragma once

#include <cstdint>

#include "ptx/types.hpp"

namespace echobuf::ptx {

enum class Rounding : std::uint8_t { kNone, kNearest, kZero, kDown, kUp };

/// A floating-point format.
struct Format {
  int precision;  // bits of the significand, the hidden one too
  int least;      // exponent of the least normal number
  int most;       // exponent of the largest number
  int fraction() const { return precision - 1; }
  int exponent_bits() const;
};

Format format_of(Type type);

/// Wide enough to hold any 64-bit integer and any double exactly.
using Wide = long double;

/// The value of a floating-point number.
Wide value_of(std::uint64_t bits, Type type);
/// The bits of `value` rounded once. A NaN becomes the one that PTX says.
std::uint64_t rounded(Wide value, Type type, Rounding rounding);
/// `value` as an integer.
Wide rounded_to_integer(Wide value, Rounding rounding);

/// The sum with its last bit set where the sum is not exact: rounded to a shorter
/// format it gives what the exact sum would give.
double sum_to_odd(double a, double b);

bool is_nan(std::uint64_t bits, Type type);
std::uint64_t nan_of(Type type);

}  // namespace echobuf::ptx
