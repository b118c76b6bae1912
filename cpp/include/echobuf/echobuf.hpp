// All that a trainer in C++ needs. See docs/embedding.md and examples/cpp_trainer.
#pragma once

#include "echobuf/buffer/buffer.hpp"      // IWYU pragma: export
#include "echobuf/buffer/checkpoint.hpp"  // IWYU pragma: export
#include "echobuf/options.hpp"            // IWYU pragma: export
#include "echobuf/version.hpp"            // IWYU pragma: export
