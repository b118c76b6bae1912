#pragma once

#include "echobuf/transform/stage_steps.hpp"

// The kernels of a stage `S` (stage_ops.hpp), for NVRTC. ECHOBUF_STAGE(name, S) makes
// the entry points name_make and name_sum; what Python generates says it once a stage.

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace echobuf::transform {

/// Blocks that a multiprocessor must have room for: with 4 a thread may have 64
/// registers. Left to itself, NVRTC stops at 40 for some stages, and spills.
template <class S>
inline constexpr int kLeastBlocks =
    S::plan().mix >= 0 || S::plan().core == Core::kWarp ||
            S::plan().core == Core::kPerspective
        ? 2
        : 4;

template <class S, bool summing>
__device__ void run_stage(const StageLaunch& a, const DrawParts& parts) {
  __shared__ BlockMemory<KnownStage<S>, summing> memory;
  run_block<summing>(DeviceThreads{}, KnownStage<S>{}, a, parts, blockIdx.x, blockIdx.y,
                     memory);
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
