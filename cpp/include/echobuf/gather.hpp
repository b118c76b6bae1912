// The header is echobuf/draw/gather.hpp.
#pragma once

#include "echobuf/draw/gather.hpp"  // IWYU pragma: export
