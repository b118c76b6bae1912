// The driver's calls that launch kernels, and those that capture and launch graphs.
#include <map>
#include <memory>
#include <utility>

#include "graphs.hpp"
#include "kernels.hpp"
#include "library.hpp"

using namespace echobuf::simulated;  // NOLINT(google-build-using-namespace)
namespace cuda = echobuf::cuda;

namespace {

constexpr cuda::Result kNotSupported = 801;

// Limits that all devices have.
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostThreadsZ = 64;
constexpr unsigned kMostBlocksX = 2147483647;
constexpr unsigned kMostBlocksYZ = 65535;
constexpr std::size_t kMostSharedBytes = std::size_t{48} << 10;

void check(const Launch& launch) {
  const auto [grid, block, shared_bytes] = launch;
  require(grid.x && grid.y && grid.z && block.x && block.y && block.z);
  require(grid.x <= kMostBlocksX && grid.y <= kMostBlocksYZ && grid.z <= kMostBlocksYZ);
  require(block.x <= kMostThreads && block.y <= kMostThreads &&
          block.z <= kMostThreadsZ && block.x * block.y * block.z <= kMostThreads);
  require(shared_bytes <= kMostSharedBytes);
}

}  // namespace

cuda::Result cuda::cuLaunchKernel(FunctionHandle function, unsigned grid_x,
                                  unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z,
                                  unsigned shared_bytes, StreamHandle handle,
                                  void** arguments, void** extra) {
  return call("cuLaunchKernel", [&](World& world, Lock& lock) {
    StreamState& stream = world.stream("cuLaunchKernel", handle);
    if (stream.context != &world.current()) throw Failure{kErrorInvalidHandle};
    auto kernel = find_kernel(function);
    if (!kernel) throw Failure{kErrorInvalidHandle};
    const Launch launch{
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    check(launch);
    if (extra) throw Failure{kNotSupported};
    if (!kernel->argument_bytes.empty()) require(arguments);
    world.await_room(lock, stream);
    world.enqueue(stream, launching(std::move(kernel), launch, arguments));
  });
}
