// The body of a kernel.
#pragma once

#include <vector>

#include "ptx/program.hpp"
#include "ptx/stream.hpp"

namespace echobuf::ptx {

/// Reads all from `{` to `}` into `kernel`. `variables` are those of the module, in its
/// order; addresses of shared ones are those in this kernel.
void read_body(TokenStream& stream, const std::vector<Variable>& variables,
               Kernel& kernel);

}  // namespace echobuf::ptx
