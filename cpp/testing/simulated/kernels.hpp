// Host builds of kernels, by the handle that a launch takes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capture.hpp"
#include "control.hpp"

namespace echobuf::simulated {

struct KernelEntry {
  std::string name;
  std::function<void(const Launch& launch, void* const* arguments)> run;
  std::vector<std::size_t> argument_bytes;
};

cuda::FunctionHandle register_kernel(KernelEntry kernel);

/// Null if there is none.
std::shared_ptr<const KernelEntry> find_kernel(cuda::FunctionHandle handle);

/// A launch as an operation, with its own copy of the arguments.
Work launching(std::shared_ptr<const KernelEntry> kernel, const Launch& launch,
               void* const* arguments);

}  // namespace echobuf::simulated
