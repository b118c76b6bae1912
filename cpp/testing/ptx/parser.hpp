// From a PTX text to a module.
#pragma once

#include <string_view>

#include "ptx/program.hpp"

namespace echobuf::ptx {

/// Throws ParseError, for anything that this machine does not know, too.
Module parse(std::string_view text);

}  // namespace echobuf::ptx
