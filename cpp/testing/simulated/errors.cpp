// Names and texts of errors, as the driver words them.
#include <algorithm>
#include <array>

#include "library.hpp"

namespace cuda = echobuf::cuda;

namespace {

struct Error {
  cuda::Result code;
  const char* name;
  const char* text;
};

constexpr std::array kErrors{
    Error{0, "CUDA_SUCCESS", "no error"},
    Error{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Error{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Error{3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    Error{4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    Error{34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    Error{46, "CUDA_ERROR_DEVICE_UNAVAILABLE",
          "CUDA-capable device(s) is/are busy or unavailable"},
    Error{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Error{101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Error{201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Error{304, "CUDA_ERROR_OPERATING_SYSTEM",
          "OS call failed or operation not supported on this OS"},
    Error{400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Error{401, "CUDA_ERROR_ILLEGAL_STATE",
          "the operation cannot be performed in the present state"},
    Error{500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Error{600, "CUDA_ERROR_NOT_READY", "device not ready"},
    Error{700, "CUDA_ERROR_ILLEGAL_ADDRESS",
          "an illegal memory access was encountered"},
    Error{701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
          "too many resources requested for launch"},
    Error{709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    Error{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Error{801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    Error{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    Error{803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
          "system has unsupported display driver / cuda driver combination"},
    Error{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
          "operation not permitted when stream is capturing"},
    Error{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
          "operation failed due to a previous error during capture"},
    Error{902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
          "operation would result in a merge of separate capture sequences"},
    Error{903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
          "capture was not ended in the same stream as it began"},
    Error{904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
          "capturing stream has unjoined work"},
    Error{905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
          "dependency created on uncaptured work in another stream"},
    Error{906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
          "operation would make the legacy stream depend on a capturing blocking "
          "stream"},
    Error{907, "CUDA_ERROR_CAPTURED_EVENT",
          "operation not permitted on an event last recorded in a capturing stream"},
    Error{908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
          "attempt to terminate a thread-local capture sequence from another thread"},
    Error{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

cuda::Result look_up(cuda::Result code, const char** found, const char* Error::*field) {
  if (!found) return cuda::kErrorInvalidValue;
  const auto* const error =
      std::find_if(kErrors.begin(), kErrors.end(),
                   [&](const Error& candidate) { return candidate.code == code; });
  *found = error == kErrors.end() ? nullptr : error->*field;
  return *found ? cuda::kSuccess : cuda::kErrorInvalidValue;
}

}  // namespace

cuda::Result cuda::cuGetErrorName(Result error, const char** name) {
  return look_up(error, name, &Error::name);
}

cuda::Result cuda::cuGetErrorString(Result error, const char** text) {
  return look_up(error, text, &Error::text);
}
