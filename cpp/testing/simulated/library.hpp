// The library as a whole: the driver that is on, and what every call of it begins with.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>

#include "echobuf/cuda/api.hpp"
#include "world.hpp"

#define ECHOBUF_SIMULATED_DECLARE(name, symbol, parameters) \
  extern "C"                                                \
      __attribute__((visibility("default"))) echobuf::cuda::Result symbol parameters;
namespace echobuf::cuda {
ECHOBUF_CUDA_CALLS(ECHOBUF_SIMULATED_DECLARE)
ECHOBUF_CUDA_NEWER_CALLS(ECHOBUF_SIMULATED_DECLARE)
}  // namespace echobuf::cuda
#undef ECHOBUF_SIMULATED_DECLARE

namespace echobuf::simulated {

/// True in a child of the process that began to use the library: its locks may
/// be held for ever, and its threads are not there.
bool forked();

/// Null before the start and after the stop.
std::shared_ptr<World> world();
void start(const Settings& settings);
void stop();
Reports& reports();

/// cuInit: from now on other calls are allowed, in all drivers to come.
void initialise();
bool initialised();

/// Counts a call of `symbol`; the code that it is to fail with, or 0.
cuda::Result count_call(const char* symbol);
std::size_t calls(const char* symbol);
void fail(const char* symbol, int nth, int code);

using Lock = std::unique_lock<std::mutex>;

/// True for calls that a lost device refuses: all but the test's own, and those that
/// ask nothing of a context.
bool needs_device(const char* symbol);

/// Runs `body(world, lock)` with the world's mutex held, and makes a code of what it
/// throws. It may give the lock up to wait.
template <class Body>
cuda::Result call(const char* symbol, Body body) noexcept {
  if (forked()) {
    // Real drivers only refuse the call; tests see here that there was one.
    std::fprintf(stderr, "%s was called in a forked child\n", symbol);
    return cuda::kErrorNotInitialized;
  }
  try {
    const std::shared_ptr<World> on = world();
    if (!initialised()) return cuda::kErrorNotInitialized;
    if (!on) return cuda::kErrorDeinitialized;
    if (const cuda::Result code = count_call(symbol)) return code;
    if (const cuda::Result code = on->lost(); code != 0 && needs_device(symbol))
      return code;
    Lock lock(on->mutex);
    body(*on, lock);
    return cuda::kSuccess;
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return cuda::kErrorOutOfMemory;
  } catch (const std::system_error&) {  // no more threads
    return cuda::kErrorUnknown;
  }
}

/// For calls that a capture would not see.
inline void refuse_in_capture(World& world) {
  if (!world.captures.allow_unsafe_call())
    throw Failure{cuda::kErrorStreamCaptureUnsupported};
}

template <class Pointer>
void require(Pointer pointer) {
  if (!pointer) throw Failure{cuda::kErrorInvalidValue};
}

inline std::uintptr_t number(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace echobuf::simulated
