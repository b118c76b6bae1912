#include "kernels.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "world.hpp"

namespace echobuf::simulated {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<cuda::FunctionHandle, std::shared_ptr<const KernelEntry>> kernels;
};

Registry& registry() {
  static auto* const registry = new Registry;
  return *registry;
}

/// Copies of values, each aligned for any type.
class Arguments {
 public:
  Arguments(const std::vector<std::size_t>& bytes, void* const* values) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      copies_.emplace_back(bytes[i] / sizeof(std::max_align_t) + 1);
      std::memcpy(copies_.back().data(), values[i], bytes[i]);
      pointers_.push_back(copies_.back().data());
    }
  }

  void* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::vector<std::max_align_t>> copies_;
  std::vector<void*> pointers_;
};

}  // namespace

cuda::FunctionHandle register_kernel(KernelEntry kernel) {
  const std::lock_guard lock(registry().mutex);
  const cuda::FunctionHandle handle = new_handle();
  registry().kernels[handle] = std::make_shared<const KernelEntry>(std::move(kernel));
  return handle;
}

std::shared_ptr<const KernelEntry> find_kernel(cuda::FunctionHandle handle) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().kernels.find(handle);
  return found == registry().kernels.end() ? nullptr : found->second;
}

Work launching(std::shared_ptr<const KernelEntry> kernel, const Launch& launch,
               void* const* arguments) {
  auto copies = std::make_shared<const Arguments>(kernel->argument_bytes, arguments);
  std::string name = kernel->name;
  return {std::move(name), [=, kernel = std::move(kernel)](const Actor&) {
            kernel->run(launch, copies->get());
          }};
}

}  // namespace echobuf::simulated
