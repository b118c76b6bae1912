// Tensors of a torch that has no DLPack exchange API, by their attributes.
#pragma once

#include <Python.h>

#include "array_view.hpp"
#include "dlpack.hpp"

namespace echobuf::python {

/// True for `torch.Tensor` itself: derived types can mean more than their bytes say.
bool is_tensor_of_torch(PyTypeObject* type);

/// Says where a tensor of torch lies, if it is one of the CPU, strided, and of the type
/// `wanted`; else false. Shape and strides are valid until the thread's next call.
bool view_by_attributes(PyObject* item, const DlpackType& wanted, ArrayView& view);

}  // namespace echobuf::python
