// Entry points of the kernels, as CuPy compiles them: see draw_kernel.hpp.
#include "echobuf/draw/draw_kernel.hpp"

namespace {

template <bool partners, class Parts>
__device__ void draw(const echobuf::DrawLayout& layout, const Parts& parts,
                     echobuf::uint32_t count) {
  __shared__ echobuf::uint64_t rows[echobuf::kDrawTile];
  echobuf::draw_block<partners>(echobuf::DeviceThreads{}, layout, parts, count,
                                blockIdx.x, rows);
}

}  // namespace

/// A batch whose parts are given.
extern "C" __global__ void __launch_bounds__(echobuf::kDrawThreads)
    echobuf_draw(const __grid_constant__ echobuf::DrawLayout layout,
                 const __grid_constant__ echobuf::DrawParts parts) {
  draw<false>(layout, parts, parts.count);
}

/// The partners of the records of a batch.
extern "C" __global__ void __launch_bounds__(echobuf::kDrawThreads)
    echobuf_draw_partners(const __grid_constant__ echobuf::DrawLayout layout,
                          const __grid_constant__ echobuf::DrawParts parts) {
  draw<true>(layout, parts, parts.count);
}

/// The batch that the plan says when the launch runs.
extern "C" __global__ void __launch_bounds__(echobuf::kDrawThreads)
    echobuf_draw_planned(const __grid_constant__ echobuf::DrawLayout layout,
                         const echobuf::uint64_t plan) {
  const echobuf::PlannedParts parts{plan};
  const echobuf::uint32_t count = parts.count();
  if (count != 0) draw<false>(layout, parts, count);
}

/// One block: writes some of the parts of a plan.
extern "C" __global__ void __launch_bounds__(echobuf::kDrawParts)
    echobuf_plan(const __grid_constant__ echobuf::DrawParts parts,
                 const echobuf::uint64_t plan) {
  echobuf::write_plan(parts, plan, threadIdx.x);
}
