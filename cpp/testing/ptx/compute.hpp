// Functions that compute a result from the bits of operands.
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/types.hpp"

namespace echobuf::ptx {

/// `in` holds the bits of the operands, zeros above the width of their type. The result
/// is given in the same way. Throws Complaint.
using Compute = std::uint64_t (*)(const std::uint64_t* in, std::uint64_t setting);

// Each returns null where there is no such function for the type.
Compute integer_function(std::string_view name, Type type);  // add, sub, mul.lo, ...
Compute logic_function(std::string_view name, Type type);    // and, or, shl, prmt, ...
Compute float_function(std::string_view name, Type type);    // add, fma, sqrt, ...

/// A comparison by its modifier (lt, geu, num). The result is 0 or 1.
Compute comparison_function(std::string_view name, Type type);

/// The first operand.
std::uint64_t same(const std::uint64_t* in, std::uint64_t setting);
/// The first operand, or the second if the third is 0.
std::uint64_t selected(const std::uint64_t* in, std::uint64_t setting);
/// Address windows (cvta): `setting` is the window.
std::uint64_t into_window(const std::uint64_t* in, std::uint64_t window);
std::uint64_t out_of_window(const std::uint64_t* in, std::uint64_t window);

}  // namespace echobuf::ptx
