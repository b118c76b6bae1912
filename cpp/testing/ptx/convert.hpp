// cvt: from one type to another.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ptx/rounding.hpp"
#include "ptx/types.hpp"

namespace echobuf::ptx {

struct Conversion {
  Type to;
  Type from;
  Rounding rounding;
  bool to_integer;  // of a float: to a whole number
  bool saturates;
};

/// rn, rz, rm, rp; with `integer`, rni and so on.
std::optional<Rounding> rounding_named(std::string_view name, bool integer);

/// Null if PTX has this conversion; otherwise what is wrong with it.
const char* wrong_with(const Conversion& conversion);

/// A conversion as the setting of converted().
std::uint64_t setting_of(const Conversion& conversion);
std::uint64_t converted(const std::uint64_t* in, std::uint64_t setting);

}  // namespace echobuf::ptx
