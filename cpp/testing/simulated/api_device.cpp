// The driver's calls on itself, on devices and on contexts.
#include <iterator>

#include "library.hpp"

using namespace echobuf::simulated;  // NOLINT(google-build-using-namespace)
namespace cuda = echobuf::cuda;

namespace {

constexpr int kMultiprocessors[] = {4, 1, 132};  // of a device, by the seed

}  // namespace

cuda::Result cuda::cuInit(unsigned flags) {
  if (forked()) return kErrorNotInitialized;
  if (flags != 0) return kErrorInvalidValue;
  if (const Result code = count_call("cuInit")) return code;
  initialise();
  return kSuccess;
}

cuda::Result cuda::cuDriverGetVersion(int* version) {
  constexpr int kCuda12 = 12000;
  if (!version) return kErrorInvalidValue;
  *version = kCuda12;
  return kSuccess;
}

cuda::Result cuda::cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", [&](World& world, Lock&) {
    require(count);
    *count = world.settings.devices;
  });
}

cuda::Result cuda::cuDeviceGet(Device* device, int ordinal) {
  return call("cuDeviceGet", [&](World& world, Lock&) {
    require(device);
    world.check_device(ordinal);
    *device = ordinal;
  });
}

cuda::Result cuda::cuDeviceGetAttribute(int* value, int attribute, Device device) {
  return call("cuDeviceGetAttribute", [&](World& world, Lock&) {
    require(value);
    world.check_device(device);
    switch (attribute) {
      case kAttributeMultiprocessors:
        // Draws are dealt out to blocks by it.
        *value = kMultiprocessors[world.settings.seed % std::size(kMultiprocessors)];
        break;
      case kAttributeMajor:
        *value = 8;
        break;
      case kAttributeMinor:
        *value = 0;
        break;
      default:
        throw Failure{kErrorInvalidValue};
    }
  });
}

cuda::Result cuda::cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return call("cuDevicePrimaryCtxRetain", [&](World& world, Lock&) {
    require(context);
    *context = world.retain(device);
  });
}

cuda::Result cuda::cuDevicePrimaryCtxRelease_v2(Device device) {
  return call("cuDevicePrimaryCtxRelease_v2",
              [&](World& world, Lock&) { world.release(device); });
}

cuda::Result cuda::cuCtxGetCurrent(Context* context) {
  return call("cuCtxGetCurrent", [&](World& world, Lock&) {
    require(context);
    *context = world.top_context();
  });
}

cuda::Result cuda::cuCtxPushCurrent_v2(Context context) {
  return call("cuCtxPushCurrent_v2",
              [&](World& world, Lock&) { world.push_context(context); });
}

cuda::Result cuda::cuCtxPopCurrent_v2(Context* context) {
  return call("cuCtxPopCurrent_v2", [&](World& world, Lock&) {
    void* popped = world.pop_context();
    if (context) *context = popped;
  });
}
