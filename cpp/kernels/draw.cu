// Entry points of the kernels, as CuPy compiles them: see draw_kernel.hpp.
#include "echobuf/draw_kernel.hpp"

extern "C" __global__ void __launch_bounds__(echobuf::kDrawThreads)
    echobuf_draw(const __grid_constant__ echobuf::DrawArguments arguments) {
  __shared__ echobuf::uint64_t rows[echobuf::kDrawTile];
  echobuf::find_rows(arguments, blockIdx.x, threadIdx.x, rows);
  __syncthreads();
  echobuf::copy_rows(arguments, blockIdx.x, threadIdx.x, rows);
}
