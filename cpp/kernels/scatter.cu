// Entry point of the kernel of puts, as CuPy compiles it: see scatter_kernel.hpp.
#include "echobuf/draw/scatter_kernel.hpp"

/// Records whose fields lie on the device, or in pinned memory.
extern "C" __global__ void __launch_bounds__(echobuf::kDrawThreads)
    echobuf_scatter(const __grid_constant__ echobuf::ScatterLayout layout) {
  echobuf::scatter_block(echobuf::DeviceThreads{}, layout, blockIdx.x);
}
