// Kernels as their compiled PTX, executed.
#pragma once

#include <string>
#include <string_view>

#include "kernels.hpp"

namespace echobuf::simulated {

/// The handle of a kernel of a PTX text; one for each text and name. Its arguments must
/// have the sizes of those of `host`, its host build, if there is one. Throws
/// ptx::ParseError and ptx::HostError.
cuda::FunctionHandle ptx_kernel(std::string_view text, const std::string& name,
                                const KernelEntry* host);

}  // namespace echobuf::simulated
