// Tensors as they are put, read without Python.
#pragma once

#include <Python.h>

#include "array_view.hpp"
#include "dlpack.hpp"

namespace echobuf::python {

inline constexpr DlpackDevice kCpu{kDlpackCpu, 0};

/// Says where a tensor lies, if it is one of `device`, of the type `wanted`, and its
/// bytes are what it means: torch's gradients, and what it has yet to negate or to
/// conjugate, are for torch to speak of. Else false.
bool view_tensor(PyObject* item, const DlpackType& wanted, ArrayView& view,
                 const DlpackDevice& device = kCpu);

}  // namespace echobuf::python
