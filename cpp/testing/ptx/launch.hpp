// One launch of a kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ptx/counts.hpp"
#include "ptx/memory.hpp"
#include "ptx/program.hpp"
#include "ptx/random.hpp"

namespace echobuf::ptx {

struct Extent {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  /// The place of number `i`, x first.
  Extent place(std::uint64_t i) const;
};

/// "(1, 0, 0)"
std::string text_of(const Extent& place);

struct LaunchSettings {
  Extent grid;
  Extent block;
  std::uint64_t most_instructions = std::uint64_t{1} << 32;  // of warps
  std::uint64_t seed = 0;                                    // of the schedule
  std::uint32_t number = 1;  // that no other launch on this memory has
};

/// The state that all blocks of a launch share.
struct Launch {
  const Kernel& kernel;
  LaunchSettings settings;
  DeviceMemory& memory;
  Random random;
  std::vector<unsigned char> parameters;  // from kSpaceBegin on
  std::vector<std::uint64_t> variables;   // addresses of the module's
  Counts counts;
};

/// Runs a kernel to its end; returns what its warps did. `variables` are the addresses
/// of its module's. Throws HostError for a launch that the driver would refuse, and
/// Fault.
Counts run_kernel(const Kernel& kernel, const LaunchSettings& settings,
                  const std::vector<std::span<const unsigned char>>& arguments,
                  DeviceMemory& memory, const std::vector<std::uint64_t>& variables);

}  // namespace echobuf::ptx
