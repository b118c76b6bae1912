// The calls of the CUDA driver that capture and launch graphs, which native tests use.
// echobuf itself makes none of them: its users' frameworks do.
#pragma once

#include "echobuf/cuda/api.hpp"

namespace echobuf::simulated {

using GraphHandle = void*;      // CUgraph
using GraphExecHandle = void*;  // CUgraphExec

inline constexpr int kCaptureGlobal = 0;  // CUstreamCaptureMode
inline constexpr int kCaptureThreadLocal = 1;

inline constexpr cuda::Result kErrorIllegalState = 401;
inline constexpr cuda::Result kErrorCaptureMerge = 902;
inline constexpr cuda::Result kErrorCaptureUnmatched = 903;
inline constexpr cuda::Result kErrorCaptureUnjoined = 904;
inline constexpr cuda::Result kErrorCaptureIsolation = 905;
inline constexpr cuda::Result kErrorCapturedEvent = 907;
inline constexpr cuda::Result kErrorCaptureWrongThread = 908;

#define ECHOBUF_SIMULATED_GRAPH_CALLS(X)                                         \
  X(cuStreamBeginCapture_v2, (cuda::StreamHandle stream, int mode))              \
  X(cuStreamEndCapture, (cuda::StreamHandle stream, GraphHandle * graph))        \
  X(cuGraphInstantiateWithFlags,                                                 \
    (GraphExecHandle * executable, GraphHandle graph, unsigned long long flags)) \
  X(cuGraphLaunch, (GraphExecHandle executable, cuda::StreamHandle stream))      \
  X(cuGraphExecDestroy, (GraphExecHandle executable))                            \
  X(cuGraphDestroy, (GraphHandle graph))

#define ECHOBUF_SIMULATED_DECLARE(symbol, parameters) \
  extern "C" __attribute__((visibility("default"))) cuda::Result symbol parameters;
ECHOBUF_SIMULATED_GRAPH_CALLS(ECHOBUF_SIMULATED_DECLARE)
#undef ECHOBUF_SIMULATED_DECLARE

}  // namespace echobuf::simulated
