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
  /// `draws`: whether the thread draws a batch, which others then make way for.
  explicit GilRelease(bool draws = false) : draws_(draws) { give_up(); }
  ~GilRelease() { take_back(); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

  /// Takes the GIL for a moment in the middle, to look for signals. False if a handler
  /// raised: the error is set, and is to be thrown once the GIL is back.
  bool check_signals();

 private:
  void give_up();
  void take_back();

  PyThreadState* state_ = nullptr;
  const bool draws_;
};

/// Returns whether a thread that has drawn a batch waits for the GIL.
bool a_draw_wants_the_gil();

/// Gives up the GIL until no draw waits for it, or for a millisecond, and then until
/// the next draw has given it up, if that is soon. Without this, who puts examples in a
/// loop keeps it from the trainer for 5 ms (see `sys.setswitchinterval`), many times
/// what a draw takes; and each sleep of the one or the other costs a good part of a
/// draw.
void let_draws_have_the_gil();

/// Says that the thread is in a loop that asks a_draw_wants_the_gil() again and again.
class MakesWay {
 public:
  MakesWay();
  ~MakesWay();
  MakesWay(const MakesWay&) = delete;
  MakesWay& operator=(const MakesWay&) = delete;
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
