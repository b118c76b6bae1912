// A CUDA driver that does nothing: every call succeeds at once. With it the time of a
// draw is what the host takes for it.
#include <atomic>
#include <cstdlib>
#include <string>

#include "echobuf/cuda/api.hpp"

using namespace echobuf::cuda;  // NOLINT(google-build-using-namespace)

namespace {

std::atomic<std::uintptr_t> handles{0x1000};
std::atomic<std::uint64_t> calls{0};
int primary;  // its address is the handle of the context
thread_local bool named = false;
std::string names;

/// `name`: of the function that calls it.
Result done(const char* name = __builtin_FUNCTION()) {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (named) names.append(name).append(" ");
  return kSuccess;
}

Result make(void** handle, const char* name = __builtin_FUNCTION()) {
  *handle = reinterpret_cast<void*>(handles.fetch_add(16));
  return done(name);
}

Result allocate(void** memory, std::size_t bytes,
                const char* name = __builtin_FUNCTION()) {
  *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *memory ? done(name) : kErrorOutOfMemory;
}

}  // namespace

extern "C" {

/// How many calls there were so far.
std::uint64_t null_driver_calls() { return calls.load(); }

/// From now on the calls of this thread, and of no other, are kept by name; or none.
void null_driver_name_calls(int on) {
  if (on != 0) names.clear();
  named = on != 0;
}

/// The names of the calls that were kept last, each followed by a space.
const char* null_driver_names() { return names.c_str(); }

Result cuInit(unsigned) { return done(); }
Result cuDriverGetVersion(int* version) { return *version = 13000, done(); }
Result cuGetErrorName(Result, const char** name) { return *name = "error", done(); }
Result cuGetErrorString(Result, const char** text) { return *text = "", done(); }
Result cuDeviceGetCount(int* count) { return *count = 1, done(); }
Result cuDeviceGet(Device* device, int) { return *device = 0, done(); }
Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kAttributeMultiprocessors ? 132 : 9;
  return done();
}
Result cuDevicePrimaryCtxRetain(Context* context, Device) {
  *context = &primary;
  return done();
}
Result cuDevicePrimaryCtxRelease_v2(Device) { return done(); }
// As in a thread that torch or CuPy has used.
Result cuCtxGetCurrent(Context* context) { return *context = &primary, done(); }
Result cuCtxPushCurrent_v2(Context) { return done(); }
Result cuCtxPopCurrent_v2(Context*) { return done(); }
Result cuCtxSynchronize() { return done(); }
Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 36;
  return done();
}
Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  void* memory = nullptr;
  const Result result = allocate(&memory, bytes);
  *address = reinterpret_cast<Address>(memory);
  return result;
}
Result cuMemFree_v2(Address address) {
  std::free(reinterpret_cast<void*>(address));
  return done();
}
Result cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes);
}
Result cuMemFreeHost(void* memory) { return std::free(memory), done(); }
Result cuMemHostRegister_v2(void*, std::size_t, unsigned) { return done(); }
Result cuMemHostUnregister(void*) { return done(); }
Result cuMemcpyHtoDAsync_v2(Address, const void*, std::size_t, StreamHandle) {
  return done();
}
Result cuMemcpyDtoHAsync_v2(void*, Address, std::size_t, StreamHandle) {
  return done();
}
Result cuMemcpyDtoDAsync_v2(Address, Address, std::size_t, StreamHandle) {
  return done();
}
Result cuStreamCreate(StreamHandle* stream, unsigned) { return make(stream); }
Result cuStreamDestroy_v2(StreamHandle) { return done(); }
Result cuStreamSynchronize(StreamHandle) { return done(); }
Result cuStreamWaitEvent(StreamHandle, EventHandle, unsigned) { return done(); }
Result cuStreamGetCaptureInfo(StreamHandle, int* status, std::uint64_t* id) {
  *status = kCaptureNone;
  *id = 0;
  return done();
}
Result cuStreamGetId(StreamHandle stream, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return done();
}
Result cuThreadExchangeStreamCaptureMode(int* mode) { return *mode = 0, done(); }
Result cuEventCreate(EventHandle* event, unsigned) { return make(event); }
Result cuEventDestroy_v2(EventHandle) { return done(); }
Result cuEventRecord(EventHandle, StreamHandle) { return done(); }
Result cuEventQuery(EventHandle) { return done(); }
Result cuEventSynchronize(EventHandle) { return done(); }
Result cuLaunchKernel(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, StreamHandle, void**, void**) {
  return done();
}

}  // extern "C"
