// The part of the CUDA driver's interface that is used, declared here: building needs
// no CUDA toolkit. Names, values and types are those of NVIDIA's cuda.h (CUDA 11.0 and
// newer), whose documentation says what each call does:
// https://docs.nvidia.com/cuda/cuda-driver-api/
#pragma once

#include <cstddef>
#include <cstdint>

namespace echobuf::cuda {

using Result = int;             // CUresult
using Device = int;             // CUdevice
using Address = std::uint64_t;  // CUdeviceptr
using Context = void*;          // CUcontext
using StreamHandle = void*;     // CUstream
using EventHandle = void*;      // CUevent
using FunctionHandle = void*;   // CUfunction

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidValue = 1;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorNotInitialized = 3;
inline constexpr Result kErrorDeinitialized = 4;
inline constexpr Result kErrorNoDevice = 100;
inline constexpr Result kErrorInvalidDevice = 101;
inline constexpr Result kErrorInvalidContext = 201;
inline constexpr Result kErrorInvalidHandle = 400;
inline constexpr Result kErrorNotReady = 600;
inline constexpr Result kErrorHostMemoryAlreadyRegistered = 712;
inline constexpr Result kErrorHostMemoryNotRegistered = 713;
inline constexpr Result kErrorStreamCaptureUnsupported = 900;
inline constexpr Result kErrorStreamCaptureInvalidated = 901;
inline constexpr Result kErrorStreamCaptureImplicit = 906;
inline constexpr Result kErrorUnknown = 999;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;

inline constexpr int kCaptureRelaxed = 2;  // CUstreamCaptureMode
inline constexpr int kCaptureNone = 0;     // CUstreamCaptureStatus
inline constexpr int kCaptureActive = 1;
inline constexpr int kCaptureInvalidated = 2;

inline constexpr int kAttributeMultiprocessors = 16;  // CUdevice_attribute
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;

/// Handles of the streams that the driver does not make by a call.
inline const StreamHandle kLegacyStream = reinterpret_cast<StreamHandle>(0x1);
inline const StreamHandle kPerThreadStream = reinterpret_cast<StreamHandle>(0x2);

using NoteHostAccess = void (*)(const void* address, std::size_t bytes, int write);

// name in the table, symbol in the library, parameters. Symbols with a suffix are those
// that cuda.h maps the plain name to.
#define ECHOBUF_CUDA_CALLS(X)                                                       \
  X(init, cuInit, (unsigned flags))                                                 \
  X(driver_version, cuDriverGetVersion, (int* version))                             \
  X(error_name, cuGetErrorName, (Result error, const char** name))                  \
  X(error_text, cuGetErrorString, (Result error, const char** text))                \
  X(device_count, cuDeviceGetCount, (int* count))                                   \
  X(device_get, cuDeviceGet, (Device * device, int ordinal))                        \
  X(device_attribute, cuDeviceGetAttribute,                                         \
    (int* value, int attribute, Device device))                                     \
  X(primary_retain, cuDevicePrimaryCtxRetain, (Context * context, Device device))   \
  X(primary_release, cuDevicePrimaryCtxRelease_v2, (Device device))                 \
  X(context_get, cuCtxGetCurrent, (Context * context))                              \
  X(context_push, cuCtxPushCurrent_v2, (Context context))                           \
  X(context_pop, cuCtxPopCurrent_v2, (Context * context))                           \
  X(context_synchronize, cuCtxSynchronize, ())                                      \
  X(memory_info, cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))        \
  X(memory_alloc, cuMemAlloc_v2, (Address * address, std::size_t bytes))            \
  X(memory_free, cuMemFree_v2, (Address address))                                   \
  X(host_alloc, cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags)) \
  X(host_free, cuMemFreeHost, (void* memory))                                       \
  X(host_register, cuMemHostRegister_v2,                                            \
    (void* memory, std::size_t bytes, unsigned flags))                              \
  X(host_unregister, cuMemHostUnregister, (void* memory))                           \
  X(copy_to_device, cuMemcpyHtoDAsync_v2,                                           \
    (Address to, const void* from, std::size_t bytes, StreamHandle stream))         \
  X(copy_to_host, cuMemcpyDtoHAsync_v2,                                             \
    (void* to, Address from, std::size_t bytes, StreamHandle stream))               \
  X(copy_on_device, cuMemcpyDtoDAsync_v2,                                           \
    (Address to, Address from, std::size_t bytes, StreamHandle stream))             \
  X(stream_create, cuStreamCreate, (StreamHandle * stream, unsigned flags))         \
  X(stream_destroy, cuStreamDestroy_v2, (StreamHandle stream))                      \
  X(stream_synchronize, cuStreamSynchronize, (StreamHandle stream))                 \
  X(stream_wait_event, cuStreamWaitEvent,                                           \
    (StreamHandle stream, EventHandle event, unsigned flags))                       \
  X(stream_capture_info, cuStreamGetCaptureInfo,                                    \
    (StreamHandle stream, int* status, std::uint64_t* id))                          \
  X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))   \
  X(event_create, cuEventCreate, (EventHandle * event, unsigned flags))             \
  X(event_destroy, cuEventDestroy_v2, (EventHandle event))                          \
  X(event_record, cuEventRecord, (EventHandle event, StreamHandle stream))          \
  X(event_query, cuEventQuery, (EventHandle event))                                 \
  X(event_synchronize, cuEventSynchronize, (EventHandle event))                     \
  X(launch, cuLaunchKernel,                                                         \
    (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,    \
     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,   \
     StreamHandle stream, void** arguments, void** extra))

// Those that older drivers lack; a pointer is null there.
#define ECHOBUF_CUDA_NEWER_CALLS(X)           \
  X(stream_id, cuStreamGetId, /* CUDA 12.0 */ \
    (StreamHandle stream, unsigned long long* id))

}  // namespace echobuf::cuda
