// The header is echobuf/schedule/fixed_schedule.hpp.
#pragma once

#include "echobuf/schedule/fixed_schedule.hpp"  // IWYU pragma: export
