// The PTX machine, for a program that loads the library at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace echobuf::simulated {

// return type, symbol, parameters. Those that return an int return 0, or one of
// PtxError; echobuf_ptx_error has the text then, of the calling thread's last error.
//
// machine: a new machine, whose schedules `seed` decides. end: frees it.
// allocate: device memory that nothing has written; its address, or 0.
// write, read: copies between the host and device memory. Reading bytes that were never
//   written is an error.
// load: a module from a PTX text, or null. It lasts as long as the machine.
// launch: runs a kernel to its end; `extents` are those of the grid and of a block.
//   `counts` begins with how many instructions the warps may run; then it has how many
//   they ran, and of loads from and stores to global memory each how many requests,
//   sectors and bytes.
// launches: a line for each launch of such kernels since the last call, 4,096
//   at most: the kernel's name, blocks, threads of a block, and then numbers as in
//   `counts`. The text lasts until the calling thread's next call.
// kernel: the handle of a kernel of a PTX text, as cuLaunchKernel takes it; null for an
//   error. `host` is its host build, whose arguments must have the same sizes, or null.
//   A launch of it ends with a report after `most_instructions` of warps.
#define ECHOBUF_PTX_CALLS(X)                                                           \
  X(void*, echobuf_ptx_machine, (std::uint64_t seed))                                  \
  X(void, echobuf_ptx_end, (void* machine))                                            \
  X(const char*, echobuf_ptx_error, ())                                                \
  X(std::uint64_t, echobuf_ptx_allocate, (void* machine, std::uint64_t bytes))         \
  X(int, echobuf_ptx_free, (void* machine, std::uint64_t address))                     \
  X(int, echobuf_ptx_write,                                                            \
    (void* machine, std::uint64_t address, const void* from, std::uint64_t bytes))     \
  X(int, echobuf_ptx_read,                                                             \
    (void* machine, std::uint64_t address, void* to, std::uint64_t bytes))             \
  X(const void*, echobuf_ptx_load,                                                     \
    (void* machine, const char* text, std::uint64_t bytes))                            \
  X(int, echobuf_ptx_launch,                                                           \
    (void* machine, const void* module, const char* kernel,                            \
     const std::uint32_t* extents, const void* const* arguments,                       \
     const std::uint64_t* argument_bytes, std::uint64_t count, std::uint64_t* counts)) \
  X(const char*, echobuf_ptx_launches, ())                                             \
  X(void*, echobuf_ptx_kernel,                                                         \
    (const char* text, std::uint64_t bytes, const char* name, void* host,              \
     std::uint64_t most_instructions))

enum PtxError : int { kPtxParse = 1, kPtxHost = 2, kPtxFault = 3 };

#define ECHOBUF_PTX_DECLARE(type, symbol, parameters) \
  extern "C" __attribute__((visibility("default"))) type symbol parameters;
ECHOBUF_PTX_CALLS(ECHOBUF_PTX_DECLARE)
#undef ECHOBUF_PTX_DECLARE

}  // namespace echobuf::simulated
