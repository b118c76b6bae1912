// Stages as the source of a kernel says them.
#pragma once

#include <pybind11/pybind11.h>

#include "echobuf/transform/stage.hpp"

namespace echobuf::python {

/// All but its operations, as text; of these the type (None: a custom one), what chance
/// knows it by, and the settings as text (of a custom one its table and its settings as
/// bytes); and whether the stage needs a statistic of the image, and whether it has
/// gates.
pybind11::tuple stage_literals(const transform::Stage& stage);

}  // namespace echobuf::python
