// The private native module: integers, pointers and buffers cross here, no policy.
#include <pybind11/pybind11.h>

#include "gil.hpp"
#include "register.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "The native core of echobuf; private.";
  m.attr("__version__") = ECHOBUF_VERSION;
  echobuf::python::remember_main_thread();
  m.def("interpreter_exits", &echobuf::python::interpreter_exits);
  register_cpu(m);
  register_permutation(m);
  register_schedule(m);
  register_buffer(m);
}
