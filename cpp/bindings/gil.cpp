#include "gil.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <pybind11/eval.h>
#include <pybind11/gil_safe_call_once.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "gil_yield.hpp"

namespace echobuf::python {

namespace py = pybind11;

namespace {

std::atomic<bool> exiting{false};
std::atomic<int> coming_back{0};
// Hints, which are read relaxed: they save sleeps, and nothing else rests on them.
std::atomic<int> draws_coming_back{0};  // of those
std::atomic<int> draws_away{0};         // draws that have given up the GIL
std::atomic<int> making_way{0};         // threads of a MakesWay that have it
thread_local bool makes_way = false;
std::atomic<unsigned long> main_thread{0};  // as PyThread_get_thread_ident() says it

// How long a thread waits, awake, for another one that is in a loop like it.
constexpr auto kMakesWay = std::chrono::microseconds(5);
constexpr auto kDrawComesBack = std::chrono::milliseconds(1);
constexpr auto kNextDraw = std::chrono::microseconds(10);

/// Waits while a condition holds, but not for longer than `most`. Other threads run
/// meanwhile, if there is no core for them.
template <class Duration, class Condition>
void wait_a_moment(Duration most, Condition&& condition) {
  if (!condition()) return;
  const auto end = std::chrono::steady_clock::now() + most;
  while (condition() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
}

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

std::terminate_handler terminate_before = nullptr;
thread_local bool runs_upstream = false;

/// Unwinding that is no exception: it has no other mark. A thread of others is left to
/// abort, since it may hold a lock that the exit needs.
[[noreturn]] void terminate_while_exiting() {
  if (exiting.load() && runs_upstream && !std::current_exception()) sleep_for_ever();
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

#if !defined(__GLIBCXX__)
// Where our C++ library lies within the module (as in wheels that Zig builds), torch
// and others bring libstdc++, which ends the process through a handler of its own.
struct Libstdcxx {
  struct ExceptionPtr {  // returned as std::exception_ptr is, which is not trivial
    void* held = nullptr;
    ExceptionPtr() = default;
    ExceptionPtr(const ExceptionPtr& other) : held(other.held) {}
    ~ExceptionPtr() {}  // one that is held stays: the process ends
  };
  std::terminate_handler (*set_terminate)(std::terminate_handler) = nullptr;
  ExceptionPtr (*current_exception)() = nullptr;
  std::terminate_handler before = nullptr;
};
Libstdcxx libstdcxx;

[[noreturn]] void terminate_libstdcxx_while_exiting() {
  if (exiting.load() && runs_upstream && libstdcxx.current_exception().held == nullptr)
    sleep_for_ever();
  if (libstdcxx.before != nullptr) libstdcxx.before();
  std::abort();
}

void set_terminate_of_libstdcxx() {
  void* const library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr || libstdcxx.before != nullptr) return;
  libstdcxx.set_terminate = reinterpret_cast<decltype(libstdcxx.set_terminate)>(
      dlsym(library, "_ZSt13set_terminatePFvvE"));
  libstdcxx.current_exception = reinterpret_cast<decltype(libstdcxx.current_exception)>(
      dlsym(library, "_ZSt17current_exceptionv"));
  if (libstdcxx.set_terminate != nullptr && libstdcxx.current_exception != nullptr)
    libstdcxx.before = libstdcxx.set_terminate(terminate_libstdcxx_while_exiting);
}
#else
void set_terminate_of_libstdcxx() {}  // ours is libstdc++
#endif

/// In a forked child there is one thread, and it is the main one.
void start_anew() {
  coming_back.store(0);
  draws_coming_back.store(0);
  draws_away.store(0);
  making_way.store(0);
  exiting.store(false);
  main_thread.store(PyThread_get_thread_ident());
}

}  // namespace

void GilRelease::give_up() {
  state_ = PyEval_SaveThread();
  if (draws_) draws_away.fetch_add(1, std::memory_order_relaxed);
  if (makes_way) making_way.fetch_sub(1, std::memory_order_relaxed);
}

void GilRelease::take_back() {
  // Sequentially consistent, with interpreter_exits(): either we see that the
  // interpreter exits, or it sees us coming and waits until we have the GIL.
  coming_back.fetch_add(1);
  if (exiting.load() && !on_main_thread()) {
    coming_back.fetch_sub(1);
    sleep_for_ever();
  }
  if (draws_) {
    draws_away.fetch_sub(1, std::memory_order_relaxed);
    draws_coming_back.fetch_add(1, std::memory_order_relaxed);
#ifndef Py_GIL_DISABLED
    wait_a_moment(kMakesWay,
                  [] { return making_way.load(std::memory_order_relaxed) > 0; });
#endif
  }
  PyEval_RestoreThread(state_);
  if (draws_) draws_coming_back.fetch_sub(1, std::memory_order_relaxed);
  if (makes_way) making_way.fetch_add(1, std::memory_order_relaxed);
  coming_back.fetch_sub(1);
}

bool a_draw_wants_the_gil() {
#ifdef Py_GIL_DISABLED
  return false;
#else
  return draws_coming_back.load(std::memory_order_relaxed) != 0;
#endif
}

void let_draws_have_the_gil() {
  const GilRelease released;
  wait_a_moment(kDrawComesBack, a_draw_wants_the_gil);
  wait_a_moment(kNextDraw,
                [] { return draws_away.load(std::memory_order_relaxed) == 0; });
}

MakesWay::MakesWay() {
  makes_way = true;
  making_way.fetch_add(1, std::memory_order_relaxed);
}

MakesWay::~MakesWay() {
  makes_way = false;
  making_way.fetch_sub(1, std::memory_order_relaxed);
}

PyObject* call_python() noexcept {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> nothing;
  const py::object& function = nothing
                                   .call_once_and_store_result([] {
                                     return py::eval("lambda: None", py::dict());
                                   })
                                   .get_stored();
  return PyObject_CallNoArgs(function.ptr());
}

bool GilRelease::check_signals() {
  take_back();
  const bool quiet = PyErr_CheckSignals() == 0;
  give_up();
  return quiet;
}

bool on_main_thread() { return PyThread_get_thread_ident() == main_thread.load(); }

void remember_main_thread() {
  pthread_atfork(nullptr, nullptr, start_anew);
  const py::object main = py::module_::import("threading").attr("main_thread")();
  main_thread.store(main.attr("ident").cast<unsigned long>());
}

void this_thread_runs_upstream() { runs_upstream = true; }

void interpreter_exits() {
  main_thread.store(PyThread_get_thread_ident());
  exiting.store(true);
  if (std::get_terminate() != terminate_while_exiting)
    terminate_before = std::set_terminate(terminate_while_exiting);
  set_terminate_of_libstdcxx();
  PyThreadState* state = PyEval_SaveThread();
  while (coming_back.load() != 0)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  PyEval_RestoreThread(state);
}

}  // namespace echobuf::python
