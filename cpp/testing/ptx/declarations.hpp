// Declarations of variables and parameters.
#pragma once

#include "ptx/program.hpp"
#include "ptx/stream.hpp"

namespace echobuf::ptx {

/// Reads `.align 8 .b8 name[512] = {...}` behind the name of a space, without what ends
/// the declaration.
Variable read_variable(TokenStream& stream, Space space);

}  // namespace echobuf::ptx
