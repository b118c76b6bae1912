// Giving up the GIL, and getting it back, or not: see GilRelease.
#pragma once

#include <Python.h>

namespace echobuf::python {

/// Gives up the GIL for its lifetime. A thread that comes back while the interpreter
/// is going down must not ask for the GIL: Python would end the thread by unwinding
/// through frames that cannot be unwound, and abort the process. Such a thread sleeps
/// for ever instead; the process ends without it.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { take_back(state_); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  /// Takes the GIL for a moment in the middle, to look for signals. False if a handler
  /// raised: the error is set, and is to be thrown once the GIL is back.
  bool check_signals();

 private:
  static void take_back(PyThreadState* state);

  PyThreadState* state_;
};

/// True on the thread that Python delivers signals to.
bool on_main_thread();

/// To be called once, when the module is imported.
void remember_main_thread();

/// To be called by a thread that calls code of others, which gives up the GIL and asks
/// for it again by itself: where Python ends it there, it sleeps for ever, too.
void this_thread_runs_upstream();

/// To be called when the interpreter begins to exit, with the GIL, from the thread that
/// exits: from then on no other thread comes back from a GilRelease.
void interpreter_exits();

}  // namespace echobuf::python
