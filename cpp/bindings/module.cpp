// The private native module: integers, pointers and buffers cross here, no policy.
#include <pybind11/pybind11.h>

#include "echobuf/version.hpp"
#include "gil.hpp"
#include "register.hpp"

namespace py = pybind11;

// Free-threaded Python needs no GIL here: see docs/proof.md.
PYBIND11_MODULE(_core, m, py::mod_gil_not_used()) {
  m.doc() = "The native core of echobuf; private.";
  m.attr("__version__") = ECHOBUF_VERSION;
  echobuf::python::remember_main_thread();
  m.def("interpreter_exits", &echobuf::python::interpreter_exits);
  m.def("this_thread_runs_upstream", &echobuf::python::this_thread_runs_upstream);
  register_cpu(m);
  register_permutation(m);
  register_schedule(m);
  register_transforms(m);
  register_options(m);
  register_buffer(m);
  register_device(m);
  register_workers(m);
  register_serve(m);
}
