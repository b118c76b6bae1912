// Objects that lend their memory by Python's buffer protocol (PEP 3118).
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <utility>

#include "array_view.hpp"
#include "dlpack.hpp"

namespace echobuf::python {

/// Memory that an object lends; given back with the GIL.
class ImportedBuffer {
 public:
  /// None if `item` lends none that is of the type `wanted`, or is text.
  static std::optional<ImportedBuffer> of(PyObject* item, const DlpackType& wanted);

  ArrayView view() const;

 private:
  struct GiveBack {
    void operator()(Py_buffer* buffer) const {
      PyBuffer_Release(buffer);
      delete buffer;
    }
  };
  // Never moves: its shape may be a part of it.
  using Held = std::unique_ptr<Py_buffer, GiveBack>;

  explicit ImportedBuffer(Held buffer) : buffer_(std::move(buffer)) {}

  Held buffer_;
};

}  // namespace echobuf::python
