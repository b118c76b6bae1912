// Loops of native code that call Python: they share the GIL as Python's own loop does.
#pragma once

#include <Python.h>

#include <chrono>

#include "gil.hpp"

namespace echobuf::python {

/// Gives the GIL up between two steps of a loop: at once for a draw that wants it back,
/// and for anybody else now and then, as an iterator written in C never does.
class GilTurns {
 public:
  /// Between two steps, with the GIL.
  void take() {
    if (a_draw_wants_the_gil()) {
      let_draws_have_the_gil();
    } else if (++steps_ == kSteps) {
      steps_ = 0;
      const auto now = Clock::now();
      if (now - last_ < kTurn) return;
      last_ = now;
      const GilRelease released;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Whoever has waited for `sys.getswitchinterval()` (5 ms) gets it then.
  static constexpr auto kTurn = std::chrono::milliseconds(1);
  static constexpr int kSteps = 16;

  int steps_ = 0;
  Clock::time_point last_ = Clock::now();
};

/// The next item of an iterator of upstream's; null at its end, or with an error set.
/// Python may end the thread in there when the interpreter exits, by unwinding: from
/// here it ends in this_thread_runs_upstream() instead, or destructors of ours would
/// run without the GIL.
inline PyObject* next_of_upstream(PyObject* items) noexcept {
  return PyIter_Next(items);
}

}  // namespace echobuf::python
