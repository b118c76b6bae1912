// The header is echobuf/sync/event_count.hpp.
#pragma once

#include "echobuf/sync/event_count.hpp"  // IWYU pragma: export
