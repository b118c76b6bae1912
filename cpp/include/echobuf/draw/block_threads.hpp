#pragma once

#include "echobuf/platform.hpp"

// The threads of a block of a kernel, for code that is compiled twice. all(step): each
// thread does a step, and goes on when all have done it, so that a step finds in the
// block's memory what the others wrote there in the step before. last(step): no
// thread waits for it.

namespace echobuf {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

/// As the device has them: each of them executes this.
struct DeviceThreads {
  template <class Step>
  __device__ void all(Step&& step) const {
    step(threadIdx.x);
    __syncthreads();
  }
  template <class Step>
  __device__ void last(Step&& step) const {
    step(threadIdx.x);
  }
};

#else

/// On the host, one after another.
class HostThreads {
 public:
  explicit HostThreads(uint32_t count) : count_(count) {}

  template <class Step>
  void all(Step&& step) const {
    for (uint32_t thread = 0; thread < count_; ++thread) step(thread);
  }
  template <class Step>
  void last(Step&& step) const {
    all(step);
  }

 private:
  uint32_t count_;
};

#endif

}  // namespace echobuf
