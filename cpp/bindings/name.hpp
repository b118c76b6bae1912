// Names of attributes as Python's strings.
#pragma once

#include <Python.h>

namespace echobuf::python {

/// A name that is made once and kept for ever.
class Name {
 public:
  explicit Name(const char* text) : text_(PyUnicode_InternFromString(text)) {}
  PyObject* get() const { return text_; }

 private:
  PyObject* text_;
};

}  // namespace echobuf::python
