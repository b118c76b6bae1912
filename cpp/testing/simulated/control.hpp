// How a test drives the simulated CUDA driver, and what a host build of a kernel says
// to it. The driver's own calls are in echobuf/cuda/api.hpp and graphs.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "echobuf/cuda/api.hpp"

namespace echobuf::simulated {

using cuda::Address;
using cuda::FunctionHandle;
using cuda::Result;
using cuda::StreamHandle;

struct Extent {
  unsigned x, y, z;
};

/// The parameters of a launch, as a kernel's host build gets them.
struct Launch {
  Extent grid;
  Extent block;
  std::size_t shared_bytes;
};

/// A host build of a kernel: runs all blocks and threads of one launch.
/// `arguments[i]` points to a copy, made at the launch, of the i-th argument.
using Kernel = void (*)(const Launch& launch, void* const* arguments);

// return type, symbol, parameters. A table, so that a program which loads the library
// at run time finds them as it finds the driver's calls.
//
// start: a fresh driver. Ends the one before as `stop` does, and forgets its reports,
//   faults and counts. Without it, cuInit starts (0, 2, 1 GiB, 1 GiB, 20).
// stop: lets all streams finish, joins their threads, reports what leaks. From then
//   on the driver's calls return CUDA_ERROR_DEINITIALIZED.
// reports: how many there are. report: writes the text of one, cut off at `size` with
//   a 0 at its end; returns the length of the whole text, 0 where there is none.
// fail: the `nth` call of `symbol` from now (1 is the next) does nothing and returns
//   `code`. calls: how many calls of `symbol` there were since the start.
// lose: as after an illegal access of a kernel. Until the next start, work that is
//   waiting does nothing, every call that concerns memory, streams, events, graphs or
//   launches returns `code`, and nothing more is reported.
// hold: while `held`, the stream begins no operation: one that it runs goes on. Ends
//   when the stream is destroyed or any context goes.
// wait: returns when all work in the stream is done (0, 1, 2: in all streams). Adds no
//   edge to the race check: what the caller does next is not ordered after that work.
// lend: gives device memory of a device's primary context to a borrower that may keep
// it
//   longer than the driver lives, as an array: `stop` neither frees nor reports it.
// free: frees device memory, lent or not, as the owner of an array does that took it
// from a stream's
//   allocator: after all work is done, without asking whether anything orders it. (For
//   cuMemFree, accesses that nothing orders before the call are reported.)
// free_on: frees device memory in the order of a stream, as an allocator that gives it
//   out again there: accesses that nothing orders before are reported. As `free` where
//   the stream is gone or captured.
// reuse_handles: whether a new stream has the handle of one that is gone, if there is
//   one: calls on that handle then mean the new stream, and are no report.
// host_access: the host reads or writes pinned memory. To be told before a read and
//   after a write, by the thread that does it.
// function: the host build of a kernel of echobuf's own; null if there is none.
// kernel: registers a kernel for as long as the process lives. Operations run one at a
//   time, so none may wait for another stream, or for the host: hold() is for that.
// touch: the kernel that runs on the calling thread reads or writes memory.
#define ECHOBUF_SIMULATED_CALLS(X)                                                     \
  X(void, echobuf_simulated_start,                                                     \
    (std::uint64_t seed, int devices, std::size_t bytes_per_device,                    \
     std::size_t pinned_bytes, unsigned largest_delay_us))                             \
  X(void, echobuf_simulated_stop, ())                                                  \
  X(std::size_t, echobuf_simulated_reports, ())                                        \
  X(std::size_t, echobuf_simulated_report,                                             \
    (std::size_t index, char* text, std::size_t size))                                 \
  X(void, echobuf_simulated_fail, (const char* symbol, int nth, int code))             \
  X(std::size_t, echobuf_simulated_calls, (const char* symbol))                        \
  X(void, echobuf_simulated_lose, (int code))                                          \
  X(Result, echobuf_simulated_hold, (StreamHandle stream, int held))                   \
  X(Result, echobuf_simulated_wait, (StreamHandle stream))                             \
  X(Result, echobuf_simulated_lend, (int device, std::size_t bytes, Address* address)) \
  X(Result, echobuf_simulated_free, (Address address))                                 \
  X(Result, echobuf_simulated_free_on, (Address address, StreamHandle stream))         \
  X(Result, echobuf_simulated_reuse_handles, (int reuse))                              \
  X(FunctionHandle, echobuf_simulated_function, (const char* name))                    \
  X(void, echobuf_simulated_host_access,                                               \
    (const void* address, std::size_t bytes, int write))                               \
  X(FunctionHandle, echobuf_simulated_kernel,                                          \
    (const char* name, Kernel run, const std::size_t* argument_bytes, int arguments))  \
  X(void, echobuf_simulated_touch, (const void* address, std::size_t bytes, int write))

#define ECHOBUF_SIMULATED_DECLARE(type, symbol, parameters) \
  extern "C" __attribute__((visibility("default"))) type symbol parameters;
ECHOBUF_SIMULATED_CALLS(ECHOBUF_SIMULATED_DECLARE)
#undef ECHOBUF_SIMULATED_DECLARE

}  // namespace echobuf::simulated
