#include "ptx/launch.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ptx/block.hpp"

namespace echobuf::ptx {

namespace {

// Limits that all devices have; of extents, in the order x, y, z.
constexpr Extent kMostBlocks{0x7FFFFFFF, 0xFFFF, 0xFFFF};
constexpr Extent kMostThreads{1024, 1024, 64};

bool within(const Extent& extent, const Extent& most) {
  return extent.x <= most.x && extent.y <= most.y && extent.z <= most.z;
}

void check_settings(const Kernel& kernel, const LaunchSettings& settings) {
  const auto refuse = [&](const std::string& message) {
    throw HostError(kernel.name + ": " + message);
  };
  if (!within(settings.grid, kMostBlocks))
    refuse("a grid of " + text_of(settings.grid) + " blocks; at most there are " +
           text_of(kMostBlocks));
  if (!within(settings.block, kMostThreads))
    refuse("a block of " + text_of(settings.block) + " threads; at most there are " +
           text_of(kMostThreads));
  const std::uint64_t threads = settings.block.count();
  if (threads == 0 || settings.grid.count() == 0) refuse("an empty launch");
  if (threads > kernel.most_threads)
    refuse(std::to_string(threads) + " threads in a block; it was compiled for " +
           std::to_string(kernel.most_threads));
  if (kernel.exact_threads && threads != *kernel.exact_threads)
    refuse(std::to_string(threads) + " threads in a block; it needs " +
           std::to_string(*kernel.exact_threads));
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

/// Runs all blocks, one after another in random order: nothing orders them, so that the
/// accesses in which it could matter are faults. Throws Fault.
void run_blocks(Launch& launch) {
  std::vector<std::uint32_t> order(launch.settings.grid.count());
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[launch.random.below(i)]);
  Block block(launch);
  for (const std::uint32_t number : order) block.run(number);
}

}  // namespace

Extent Extent::place(std::uint64_t i) const {
  return {static_cast<std::uint32_t>(i % x), static_cast<std::uint32_t>(i / x % y),
          static_cast<std::uint32_t>(i / x / y)};
}

std::string text_of(const Extent& place) {
  return "(" + std::to_string(place.x) + ", " + std::to_string(place.y) + ", " +
         std::to_string(place.z) + ")";
}

Counts run_kernel(const Kernel& kernel, const LaunchSettings& settings,
                  const std::vector<std::span<const unsigned char>>& arguments,
                  DeviceMemory& memory, const std::vector<std::uint64_t>& variables) {
  check_settings(kernel, settings);
  const std::uint64_t apart = settings.number * std::uint64_t{0xD1B54A32D192ED03};
  Launch launch{kernel,
                settings,
                memory,
                Random(settings.seed + apart),
                parameters_of(kernel, arguments),
                variables,
                {}};
  run_blocks(launch);
  return launch.counts;
}

}  // namespace echobuf::ptx
