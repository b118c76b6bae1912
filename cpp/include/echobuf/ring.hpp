// The header is echobuf/store/ring.hpp.
#pragma once

#include "echobuf/store/ring.hpp"  // IWYU pragma: export
