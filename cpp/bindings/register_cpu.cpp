#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "echobuf/cpu.hpp"
#include "register.hpp"

namespace py = pybind11;

namespace {

std::vector<std::string> cpu_features() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  features.emplace_back("x86-64");
  const echobuf::CpuLevel level = echobuf::cpu_level();
  if (level >= echobuf::CpuLevel::kAvx2) features.emplace_back("avx2");
  if (level >= echobuf::CpuLevel::kAvx512) features.emplace_back("avx512");
#elif defined(__aarch64__)
  features.emplace_back("aarch64");
#else
  features.emplace_back("portable");
#endif
  return features;
}

}  // namespace

void register_cpu(py::module_& m) { m.def("cpu_features", &cpu_features); }
