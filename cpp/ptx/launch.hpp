// One launch of a kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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
};

/// The state that all blocks of a launch share.
struct Launch {
  const Kernel& kernel;
  LaunchSettings settings;
  Memory& memory;
  Random random;
  std::uint32_t number;                   // of this launch, on its machine
  std::vector<unsigned char> parameters;  // from kSpaceBegin on
  std::vector<std::uint64_t> variables;   // addresses of the module's
  std::uint64_t instructions = 0;         // that warps have run
};

/// Runs all blocks, one after another in random order: nothing orders them, so that the
/// accesses in which it could matter are faults. Throws Fault.
void run_blocks(Launch& launch);

}  // namespace echobuf::ptx
