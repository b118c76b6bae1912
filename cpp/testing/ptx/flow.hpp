// Reconvergence points: threads that part at a branch meet again there.
#pragma once

#include "ptx/program.hpp"

namespace echobuf::ptx {

/// Gives each branch its immediate post-dominator: the first instruction that all ways
/// from it lead through, or the end of the code where there is none.
void find_joins(Kernel& kernel);

}  // namespace echobuf::ptx
