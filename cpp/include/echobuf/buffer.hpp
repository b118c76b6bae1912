// The header is echobuf/buffer/buffer.hpp.
#pragma once

#include "echobuf/buffer/buffer.hpp"  // IWYU pragma: export
