// The work of a launch.
#pragma once

#include <cstdint>

namespace echobuf::ptx {

inline constexpr std::uint64_t kSectorBytes = 32;  // that memory moves at once

/// Accesses to global memory.
struct Traffic {
  std::uint64_t requests = 0;  // instructions of warps
  std::uint64_t sectors = 0;   // of kSectorBytes, each once a request
  std::uint64_t bytes = 0;     // of all threads
};

struct Counts {
  std::uint64_t instructions = 0;  // of warps
  Traffic loads;
  Traffic stores;
};

}  // namespace echobuf::ptx
