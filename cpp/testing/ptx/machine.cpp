#include "ptx/machine.hpp"

#include <utility>

#include "ptx/parser.hpp"

namespace echobuf::ptx {

const LoadedModule& Machine::load(std::string_view text) {
  LoadedModule loaded{parse(text), {}};
  for (const Variable& variable : loaded.module.variables) {
    if (variable.space == Space::kShared) {
      loaded.variables.push_back(0);
      continue;
    }
    const std::uint64_t address = memory_.allocate(variable.bytes, variable.name);
    std::vector<unsigned char> content = variable.initial;
    content.resize(variable.bytes);  // the rest is zeros
    memory_.write(address, content);
    if (variable.space == Space::kConst) memory_.set_read_only(address);
    loaded.variables.push_back(address);
  }
  modules_.push_back(std::move(loaded));
  return modules_.back();
}

Counts Machine::launch(const LoadedModule& module, const std::string& name,
                       const LaunchSettings& settings,
                       const std::vector<std::span<const unsigned char>>& arguments) {
  const Kernel* const kernel = module.module.find(name);
  if (kernel == nullptr) throw HostError("the module has no kernel " + name);
  LaunchSettings numbered = settings;
  numbered.number = ++launches_;
  numbered.seed = seed_;
  return run_kernel(*kernel, numbered, arguments, memory_, module.variables);
}

}  // namespace echobuf::ptx
