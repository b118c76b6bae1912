// Loops of native code that call Python: they share the GIL as Python's own loop does.
#pragma once

#include <Python.h>

#include "gil.hpp"

namespace echobuf::python {

/// Calls a function of Python's that does nothing. Null with an error set.
PyObject* call_python() noexcept;

/// Gives the GIL up between two steps of a loop: at once for a draw that wants it back,
/// and for any other thread as Python's own loop does, which an iterator written in C
/// never runs.
class GilYield {
 public:
  /// Between two steps, with the GIL. False with a Python error set.
  bool yield() {
    if (a_draw_wants_the_gil()) let_draws_have_the_gil();
    if (++steps_ != kSteps) return true;
    steps_ = 0;
    // Not a GilRelease: to take the GIL back at once tells a thread that waits for it
    // to wait anew, and only one that has waited for `sys.getswitchinterval()` is let
    // in.
    PyObject* const none = call_python();
    Py_XDECREF(none);
    return none != nullptr;
  }

 private:
  static constexpr int kSteps = 4;

  const MakesWay makes_way_;
  int steps_ = 0;
};

/// The next item of an iterator of upstream's; null at its end, or with an error set.
/// Python may end the thread in there when the interpreter exits, by unwinding: from
/// here it ends in this_thread_runs_upstream() instead, or destructors of ours would
/// run without the GIL.
inline PyObject* next_of_upstream(PyObject* items) noexcept {
  return PyIter_Next(items);
}

}  // namespace echobuf::python
