#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "echobuf/cpu.hpp"
#include "echobuf/store/copy.hpp"
#include "gil.hpp"
#include "register.hpp"

namespace py = pybind11;

namespace {

/// Names what runs of a CPU, or what it has.
std::vector<std::string> cpu_features(bool in_use) {
#if defined(__x86_64__)
  const echobuf::CpuFeatures features =
      in_use ? echobuf::cpu_in_use() : echobuf::detect_cpu();
  std::vector<std::string> names = {"x86-64"};
  if (features.level >= echobuf::CpuLevel::kAvx2) names.emplace_back("avx2");
  if (features.level >= echobuf::CpuLevel::kAvx512) names.emplace_back("avx512");
  if (features.f16c) names.emplace_back("f16c");
  return names;
#else
  (void)in_use;
#if defined(__aarch64__)
  return {"aarch64"};
#else
  return {"portable"};
#endif
#endif
}

/// Copies bytes past the caches: what large draws are compared with.
void streaming_copy(const py::buffer& to, const py::buffer& from) {
  const py::buffer_info target = to.request(true);
  const py::buffer_info source = from.request();
  const auto bytes = static_cast<std::size_t>(target.size * target.itemsize);
  if (bytes != static_cast<std::size_t>(source.size * source.itemsize))
    throw py::value_error("they are of different sizes");
  for (const py::buffer_info* each : {&target, &source})
    if (!PyBuffer_IsContiguous(each->view(), 'C'))
      throw py::value_error("they must be contiguous");
  const echobuf::python::GilRelease released;
  echobuf::streaming_copy()(static_cast<std::byte*>(target.ptr),
                            static_cast<const std::byte*>(source.ptr), bytes);
  echobuf::finish_streaming();
}

}  // namespace

void register_cpu(py::module_& m) {
  m.def("cpu_features", &cpu_features, py::arg("in_use") = true);
  m.attr("CPU_VARIABLE") = echobuf::kCpuVariable;
  m.def("streaming_copy", &streaming_copy);
}
