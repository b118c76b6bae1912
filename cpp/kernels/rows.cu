// The entry points of the kernels for records that differ in length, as CuPy compiles
// them: see rows_kernel.hpp.
#include "echobuf/draw/block_threads.hpp"
#include "echobuf/draw/rows_kernel.hpp"

/// A batch of records that differ in length.
extern "C" __global__ void __launch_bounds__(echobuf::kRowsThreads)
    echobuf_draw_rows(const __grid_constant__ echobuf::RowsMoves moves) {
  echobuf::draw_rows_block(echobuf::DeviceThreads{}, moves, blockIdx.x);
}

/// Records, each to its place in a row. Four blocks to a multiprocessor: asked for
/// no number, ptxas aims at more for sm_100, and spills.
extern "C" __global__ void __launch_bounds__(echobuf::kRowsThreads, 4)
    echobuf_place_rows(const __grid_constant__ echobuf::PlaceMoves moves) {
  echobuf::place_rows_block(echobuf::DeviceThreads{}, moves, blockIdx.x);
}
