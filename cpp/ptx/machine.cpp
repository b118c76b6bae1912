#include "ptx/machine.hpp"

#include <algorithm>
#include <utility>

#include "ptx/parser.hpp"

namespace echobuf::ptx {

namespace {

constexpr std::uint64_t kMostShared = 227 * 1024;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 31;

void check_settings(const Kernel& kernel, const LaunchSettings& settings) {
  const std::uint64_t threads = settings.block.count();
  const auto refuse = [&](const std::string& message) {
    throw HostError(kernel.name + ": " + message);
  };
  if (threads == 0 || settings.grid.count() == 0) refuse("an empty launch");
  if (threads > kernel.most_threads)
    refuse(std::to_string(threads) + " threads in a block; it was compiled for " +
           std::to_string(kernel.most_threads));
  if (kernel.exact_threads && threads != *kernel.exact_threads)
    refuse(std::to_string(threads) + " threads in a block; it needs " +
           std::to_string(*kernel.exact_threads));
  if (settings.grid.count() > kMostBlocks) refuse("too many blocks");
  if (kernel.shared.bytes() > kMostShared) refuse("too much shared memory");
}

std::vector<unsigned char> parameters_of(
    const Kernel& kernel,
    const std::vector<std::span<const unsigned char>>& arguments) {
  if (arguments.size() != kernel.parameters.size())
    throw HostError(kernel.name + " takes " + std::to_string(kernel.parameters.size()) +
                    " arguments, not " + std::to_string(arguments.size()));
  std::vector<unsigned char> bytes(kernel.parameter_layout.bytes());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Variable& parameter = kernel.parameters[i];
    if (arguments[i].size() != parameter.bytes)
      throw HostError(kernel.name + ": argument " + std::to_string(i) + " has " +
                      std::to_string(arguments[i].size()) +
                      " bytes; the kernel takes " + std::to_string(parameter.bytes));
    std::copy(arguments[i].begin(), arguments[i].end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(parameter.address));
  }
  return bytes;
}

}  // namespace

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

std::uint64_t Machine::launch(
    const LoadedModule& module, const std::string& name, const LaunchSettings& settings,
    const std::vector<std::span<const unsigned char>>& arguments) {
  const Kernel* const kernel = module.module.find(name);
  if (kernel == nullptr) throw HostError("the module has no kernel " + name);
  check_settings(*kernel, settings);
  const std::uint32_t number = ++launches_;
  Launch launch{
      *kernel,         settings,
      memory_,         Random(seed_ + number * std::uint64_t{0xD1B54A32D192ED03}),
      number,          parameters_of(*kernel, arguments),
      module.variables};
  run_blocks(launch);
  return launch.instructions;
}

}  // namespace echobuf::ptx
