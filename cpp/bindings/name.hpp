// Names of attributes as Python's strings.
#pragma once

#include <Python.h>

#include <atomic>

namespace echobuf::python {

/// A name whose string is made at the first use and kept for ever. No lock: a thread
/// that makes the string may be stopped in there by a pause of all threads, which
/// then would wait for one that waits for the lock.
class Name {
 public:
  /// `text`: a literal.
  constexpr explicit Name(const char* text) : text_(text) {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

  /// A borrowed reference; null, with an error set, where memory has run out.
  PyObject* get() const {
    // Acquire: pairs with the exchange below; the string has been written.
    PyObject* known = made_.load(std::memory_order_acquire);
    if (known != nullptr) return known;
    PyObject* const mine = PyUnicode_InternFromString(text_);
    if (made_.compare_exchange_strong(known, mine, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return mine;
    Py_XDECREF(mine);  // another thread was first
    return known;
  }

 private:
  const char* const text_;
  mutable std::atomic<PyObject*> made_{nullptr};
};

}  // namespace echobuf::python
