// The header is echobuf/schedule/permutation.hpp.
#pragma once

#include "echobuf/schedule/permutation.hpp"  // IWYU pragma: export
