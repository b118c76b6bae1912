// The calls of a driver by which draws and uploads are ordered, for tests that leave
// one out: the real ones, and the two objects that are told apart.
#pragma once

#include <atomic>

#include "echobuf/cuda/driver.hpp"

namespace echobuf::test {

inline cuda::Driver::Calls real;
inline std::atomic<cuda::EventHandle> drawn;    // the first event that a buffer makes
inline std::atomic<cuda::StreamHandle> upload;  // the first stream

inline void watch(cuda::Driver::Calls& calls) {
  real = calls;
  drawn = nullptr;
  upload = nullptr;
  calls.event_create = [](cuda::EventHandle* event, unsigned flags) {
    const cuda::Result result = real.event_create(event, flags);
    cuda::EventHandle none = nullptr;
    drawn.compare_exchange_strong(none, *event);
    return result;
  };
  calls.stream_create = [](cuda::StreamHandle* stream, unsigned flags) {
    const cuda::Result result = real.stream_create(stream, flags);
    cuda::StreamHandle none = nullptr;
    upload.compare_exchange_strong(none, *stream);
    return result;
  };
}

}  // namespace echobuf::test
