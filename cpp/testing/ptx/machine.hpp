// A machine: memory, modules, launches.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/launch.hpp"
#include "ptx/memory.hpp"
#include "ptx/program.hpp"

namespace echobuf::ptx {

/// A module whose variables have memory.
struct LoadedModule {
  Module module;
  std::vector<std::uint64_t> variables;  // addresses
};

class Machine {
 public:
  /// The seed decides on all schedules.
  explicit Machine(std::uint64_t seed) : seed_(seed) {}

  Memory& memory() { return memory_; }

  /// Throws ParseError. The module stays for as long as the machine.
  const LoadedModule& load(std::string_view text);

  /// Runs a kernel to its end; returns what its warps did. `arguments` are copied.
  /// Throws HostError for a launch that the driver would refuse, and Fault.
  Counts launch(const LoadedModule& module, const std::string& kernel,
                const LaunchSettings& settings,
                const std::vector<std::span<const unsigned char>>& arguments);

 private:
  std::uint64_t seed_;
  std::uint32_t launches_ = 0;
  Memory memory_;
  std::deque<LoadedModule> modules_;
};

}  // namespace echobuf::ptx
