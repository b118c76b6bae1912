// Tensors that their framework describes to C, without Python: DLPack's exchange API.
#pragma once

#include <Python.h>

#include <cstdint>

#include "array_view.hpp"
#include "dlpack.hpp"

namespace echobuf::python {

/// DLPackExchangeAPIHeader and DLPackExchangeAPI (DLPack 1.3, dlpack.h).
struct ExchangeHeader {
  std::uint32_t major;
  std::uint32_t minor;
  const ExchangeHeader* older;
};
struct Exchange {
  ExchangeHeader header;
  void* allocate;
  void* export_managed;
  void* import_managed;
  int (*describe)(void* object, DlpackTensor* tensor);  // null: not offered
  void* current_stream;
};

/// The exchange of this very type; null if it has none. Types derived from one can mean
/// more than their bytes say.
const Exchange* find_exchange(PyTypeObject* type);

/// Says where a tensor lies, if it is one of `device`, of the type `wanted`; else
/// false.
bool view_by_exchange(PyObject* item, const Exchange& exchange,
                      const DlpackType& wanted, const DlpackDevice& device,
                      ArrayView& view);

}  // namespace echobuf::python
