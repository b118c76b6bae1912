// Kernels as their compiled PTX, executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels.hpp"
#include "ptx/counts.hpp"

namespace echobuf::simulated {

/// The handle of a kernel of a PTX text; one for each text, name and limit of
/// instructions. Its arguments must have the sizes of those of `host`, its host build,
/// if there is one. Throws ptx::ParseError and ptx::HostError.
cuda::FunctionHandle ptx_kernel(std::string_view text, const std::string& name,
                                const KernelEntry* host,
                                std::uint64_t most_instructions);

/// A launch that has ended.
struct PtxLaunch {
  std::string kernel;
  std::uint64_t blocks;
  std::uint64_t threads;  // of a block
  ptx::Counts counts;
};

/// Those since the last call, in the order of their ends; the last kMostPtxLaunches.
std::vector<PtxLaunch> take_ptx_launches();
inline constexpr std::size_t kMostPtxLaunches = 4096;

}  // namespace echobuf::simulated
