// The CUDA driver, loaded when it is first wanted: a table of its calls, each checked.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "echobuf/cuda/api.hpp"

namespace echobuf::cuda {

/// A call of the driver failed, or there is no driver.
class Error : public std::runtime_error {
 public:
  Error(Result code, const std::string& what) : std::runtime_error(what), code_(code) {}

  /// The driver's own code; 0 if it was not the driver that failed.
  Result code() const { return code_; }

 private:
  Result code_;
};

/// The calls of one driver library. Member functions have the driver's parameters, and
/// throw Error instead of returning a code; those of `calls()` return it.
class Driver {
 public:
  struct Calls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define ECHOBUF_CUDA_POINTER(name, symbol, parameters) Result(*name) parameters;
    ECHOBUF_CUDA_CALLS(ECHOBUF_CUDA_POINTER)
    ECHOBUF_CUDA_NEWER_CALLS(ECHOBUF_CUDA_POINTER)
#undef ECHOBUF_CUDA_POINTER
  };

  /// Loads `library` and starts the driver in it. The library stays loaded.
  static std::shared_ptr<const Driver> load(const char* library = "libcuda.so.1") {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw Error(0, std::string("no CUDA driver: ") + dlerror());
    std::shared_ptr<Driver> driver(new Driver);
    driver->library_ = library;
#define ECHOBUF_CUDA_LOAD(name, symbol, parameters) \
  driver->find(handle, #symbol, driver->calls_.name);
    ECHOBUF_CUDA_CALLS(ECHOBUF_CUDA_LOAD)
#undef ECHOBUF_CUDA_LOAD
#define ECHOBUF_CUDA_LOOK(name, symbol, parameters) \
  driver->look(handle, #symbol, driver->calls_.name);
    ECHOBUF_CUDA_NEWER_CALLS(ECHOBUF_CUDA_LOOK)
#undef ECHOBUF_CUDA_LOOK
    driver->note_host_access_ = reinterpret_cast<NoteHostAccess>(
        dlsym(handle, "echobuf_simulated_host_access"));
    driver->check(driver->calls_.init(0), "cuInit");
    return driver;
  }

  /// The same library with other calls in its place: for tests that leave one out.
  std::shared_ptr<const Driver> with(const Calls& calls) const {
    std::shared_ptr<Driver> changed(new Driver(*this));
    changed->calls_ = calls;
    return changed;
  }

  const Calls& calls() const { return calls_; }

  /// For the simulated driver alone, which then knows what the host does with pinned
  /// memory; null with a real one.
  NoteHostAccess note_host_access() const { return note_host_access_; }
  const std::string& library() const { return library_; }

#define ECHOBUF_CUDA_CALL(name, symbol, parameters) \
  template <class... Arguments>                     \
  void name(Arguments... arguments) const {         \
    check(calls_.name(arguments...), #symbol);      \
  }
  ECHOBUF_CUDA_CALLS(ECHOBUF_CUDA_CALL)
#undef ECHOBUF_CUDA_CALL

  /// Throws unless `code` is success: says the call, its error's name and text.
  void check(Result code, const char* call) const {
    if (code != kSuccess) throw Error(code, std::string(call) + ": " + describe(code));
  }

  /// The number of the capture that `stream` is in, if it is in one. Throws where a
  /// capture has gone wrong, or would by any work on `stream`.
  std::optional<std::uint64_t> capture_of(StreamHandle stream) const {
    int status = kCaptureNone;
    std::uint64_t id = 0;
    stream_capture_info(stream, &status, &id);
    if (status == kCaptureNone) return std::nullopt;
    if (status != kCaptureActive)
      check(kErrorStreamCaptureInvalidated, "cuStreamGetCaptureInfo");
    return id;
  }

  /// A number that no other stream has, or had, in this process. None where the driver
  /// does not tell streams apart.
  std::optional<std::uint64_t> id_of(StreamHandle stream) const {
    if (!calls_.stream_id) return std::nullopt;
    unsigned long long id = 0;
    check(calls_.stream_id(stream, &id), "cuStreamGetId");
    return id;
  }

  std::string describe(Result code) const {
    const char* name = nullptr;
    const char* text = nullptr;
    calls_.error_name(code, &name);
    calls_.error_text(code, &text);
    return std::string(name ? name : "unknown error") + " (" + std::to_string(code) +
           ")" + (text ? std::string(", ") + text : "");
  }

 private:
  Driver() = default;

  template <class Pointer>
  static void look(void* handle, const char* symbol, Pointer& pointer) {
    pointer = reinterpret_cast<Pointer>(dlsym(handle, symbol));
  }

  template <class Pointer>
  void find(void* handle, const char* symbol, Pointer& pointer) {
    look(handle, symbol, pointer);
    if (!pointer)
      throw Error(0, std::string("the CUDA driver is too old: ") + library_ +
                         " has no " + symbol + "; CUDA 11.0 or newer is needed");
  }

  Calls calls_{};
  NoteHostAccess note_host_access_ = nullptr;
  std::string library_;
};

}  // namespace echobuf::cuda
