// The header is echobuf/schedule/sweep.hpp.
#pragma once

#include "echobuf/schedule/sweep.hpp"  // IWYU pragma: export
