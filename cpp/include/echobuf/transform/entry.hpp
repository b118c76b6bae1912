#pragma once

#include "echobuf/transform/stage_kernel.hpp"

// The kernels of a stage `S` (stage_ops.hpp), for NVRTC. ECHOBUF_STAGE(name, S) makes
// the entry points name_make and name_sum; what Python generates says it once a stage.

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace echobuf::transform {

/// Blocks that a multiprocessor must have room for: with 4 a thread may have 64
/// registers. Left to itself, NVRTC stops at 40 for some stages, and spills.
template <class S>
inline constexpr int kLeastBlocks =
    S::plan().mix >= 0 || S::plan().core == Core::kWarp ? 2 : 4;

/// The weights of so many images, where there are any.
template <bool weighed, int images>
struct KeptWeights {
  TileWeights of[images];
  __device__ TileWeights* image(int i) { return of + i; }
};
template <int images>
struct KeptWeights<false, images> {
  __device__ TileWeights* image(int) { return nullptr; }
};

/// Launched with blocks of rows and tiles along x; along y 1, or 2 where the partner's
/// image is made, too.
template <class S, bool summing>
__device__ void run_stage(const StageLaunch& a, const DrawParts& by_value) {
  using Ops = StageOps<S>;
  constexpr StagePlan stage = S::plan();
  constexpr Tile tile = Ops::tile();
  constexpr bool weighed = tile.row_taps > 0;
  constexpr bool mixes = stage.mix >= 0;
  __shared__ StageMemory<Ops::kMost> memory;
  __shared__ KeptWeights<weighed, mixes ? 2 : 1> weights;

  const PartsOf parts{&by_value, a.plan};
  const uint32_t count = parts.count();
  if (count == 0) return;  // a plan of nothing
  const StageBlock block(tile, stage.target.extent, blockIdx.x, blockIdx.y);
  find(a, parts, count, block, threadIdx.x, StageChance<S>{}, memory);
  if constexpr (is_bytewise<S>() && !summing) {
    __shared__ ByteTable<S> table;
    tabulate(threadIdx.x, table);
    __syncthreads();
    const TilePlace none{tile, block.top, block.left, nullptr};
    const StageOps<S> ops(memory.draws[block.partner], none);
    return make_of_bytes(a, block, threadIdx.x, ops, memory, table);
  }
  __syncthreads();
  if constexpr (stage.mean >= 0 && !summing) {
    set_mean(a, block, stage, threadIdx.x, memory);
    __syncthreads();
  }
  const TilePlace place{tile, block.top, block.left, weights.image(0)};
  const Ops ops(memory.draws[block.partner], place);
  if constexpr (weighed) weigh(ops, block, threadIdx.x, *weights.image(0));
  if constexpr (summing) {
    if constexpr (weighed) __syncthreads();
    __shared__ int64_t sums[kStageThreads];
    sums[threadIdx.x] = sum_grey(block, threadIdx.x, ops, memory.image[block.partner]);
    for (uint32_t left = kStageThreads / 2; left > 0; left /= 2) {
      __syncthreads();
      if (threadIdx.x < left) sums[threadIdx.x] += sums[threadIdx.x + left];
    }
    if (threadIdx.x == 0)
      device::store(block.sums(a, block.partner) + block.number * sizeof(int64_t),
                    sums[0]);
  } else if constexpr (mixes) {
    const TilePlace partner_place{tile, block.top, block.left, weights.image(1)};
    const Ops partner_ops(memory.draws[1], partner_place);
    if constexpr (weighed) weigh(partner_ops, block, threadIdx.x, *weights.image(1));
    if constexpr (weighed) __syncthreads();
    make(a, block, threadIdx.x, ops, partner_ops, memory);
  } else {
    if constexpr (weighed) __syncthreads();
    make(a, block, threadIdx.x, ops, ops, memory);
  }
}

}  // namespace echobuf::transform

#define ECHOBUF_STAGE_ENTRY(entry, S, summing)                                      \
  extern "C" __global__ void __launch_bounds__(echobuf::transform::kStageThreads,   \
                                               echobuf::transform::kLeastBlocks<S>) \
      entry(const __grid_constant__ echobuf::transform::StageLaunch launch,         \
            const __grid_constant__ echobuf::DrawParts parts) {                     \
    echobuf::transform::run_stage<S, summing>(launch, parts);                       \
  }
#define ECHOBUF_STAGE_MAKE(name, S) ECHOBUF_STAGE_ENTRY(name##_make, S, false)
#define ECHOBUF_STAGE_SUM(name, S) ECHOBUF_STAGE_ENTRY(name##_sum, S, true)

#endif
