// Each register_*.cpp adds one topic to the module.
#pragma once

#include <pybind11/pybind11.h>

void register_buffer(pybind11::module_& m);
void register_cpu(pybind11::module_& m);
void register_device(pybind11::module_& m);
void register_options(pybind11::module_& m);
void register_permutation(pybind11::module_& m);
void register_schedule(pybind11::module_& m);
void register_serve(pybind11::module_& m);
void register_transforms(pybind11::module_& m);
void register_workers(pybind11::module_& m);
