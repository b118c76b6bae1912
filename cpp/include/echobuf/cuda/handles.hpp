// Resources of the driver that are released when they go out of scope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "echobuf/cuda/api.hpp"
#include "echobuf/cuda/driver.hpp"
#include "echobuf/process.hpp"
#include "echobuf/store/shared_memory.hpp"

namespace echobuf::cuda {

/// One device's primary context: the one that torch, JAX and CuPy use.
class DeviceContext {
 public:
  DeviceContext(std::shared_ptr<const Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {
    int count = 0;
    driver_->device_count(&count);
    if (ordinal < 0 || ordinal >= count)
      throw Error(kErrorInvalidDevice, "there is no device " + std::to_string(ordinal) +
                                           "; this machine has " +
                                           std::to_string(count));
    driver_->device_get(&device_, ordinal);
    driver_->device_attribute(&multiprocessors_, kAttributeMultiprocessors, device_);
    driver_->primary_retain(&context_, device_);
  }
  ~DeviceContext() {
    if (of_this_process()) driver_->calls().primary_release(device_);
  }
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  /// False in a forked child, where the driver allows no call.
  bool of_this_process() const { return generation_ == fork_generation(); }

  const Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  std::uint32_t multiprocessors() const {
    return static_cast<std::uint32_t>(multiprocessors_);
  }

  /// While this lives the context is this thread's; afterwards the one before is.
  class Scope {
   public:
    explicit Scope(const DeviceContext& owner) : owner_(owner) {
      owner.driver_->context_push(owner.context_);
    }
    ~Scope() {
      Context before = nullptr;
      owner_.driver_->calls().context_pop(&before);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const DeviceContext& owner_;
  };

  /// The same, in fewer calls where the context is this thread's already.
  class CurrentScope {
   public:
    explicit CurrentScope(const DeviceContext& owner) {
      Context current = nullptr;
      owner.driver_->context_get(&current);
      if (current != owner.context_) scope_.emplace(owner);
    }

   private:
    std::optional<Scope> scope_;
  };

  /// The same for calls that a capture does not see, such as allocations: while a
  /// thread captures a graph, these would fail, and break its capture.
  class RelaxedScope {
   public:
    explicit RelaxedScope(const DeviceContext& owner)
        : scope_(owner), driver_(owner.driver()) {
      driver_.thread_exchange_capture_mode(&mode_);
    }
    /// For what is given back: that is tried even if the driver refuses the exchange.
    RelaxedScope(const DeviceContext& owner, std::nothrow_t)
        : scope_(owner), driver_(owner.driver()), exchanged_(exchange()) {}
    ~RelaxedScope() {
      if (exchanged_) exchange();
    }
    RelaxedScope(const RelaxedScope&) = delete;
    RelaxedScope& operator=(const RelaxedScope&) = delete;

   private:
    bool exchange() {
      return driver_.calls().thread_exchange_capture_mode(&mode_) == kSuccess;
    }

    const Scope scope_;
    const Driver& driver_;
    int mode_ = kCaptureRelaxed;
    const bool exchanged_ = true;
  };

 private:
  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  const std::uint32_t generation_ = fork_generation();
  Device device_ = 0;
  int multiprocessors_ = 0;
  Context context_ = nullptr;
};

using SharedContext = std::shared_ptr<const DeviceContext>;

/// Something of a context that is destroyed in it; a forked child leaves it alone.
template <class Handle, Result (*Driver::Calls::*kDestroy)(Handle)>
class Owned {
 public:
  Owned(SharedContext context, Handle handle)
      : context_(std::move(context)), handle_(handle) {}
  ~Owned() {
    if (!context_->of_this_process()) return;
    const auto& calls = context_->driver().calls();
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      (calls.*kDestroy)(handle_);
    } catch (const Error&) {  // the driver is going down, and takes everything along
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }
  const DeviceContext& context() const { return *context_; }

 private:
  const SharedContext context_;
  const Handle handle_;
};

using Stream = Owned<StreamHandle, &Driver::Calls::stream_destroy>;
using Event = Owned<EventHandle, &Driver::Calls::event_destroy>;
using DeviceMemory = Owned<Address, &Driver::Calls::memory_free>;
using PinnedMemory = Owned<void*, &Driver::Calls::host_free>;

/// A stream that does not wait for the default stream.
inline std::unique_ptr<Stream> make_stream(const SharedContext& context) {
  const DeviceContext::Scope scope(*context);
  StreamHandle handle = nullptr;
  context->driver().stream_create(&handle, kStreamNonBlocking);
  return std::make_unique<Stream>(context, handle);
}

/// An event without timing; who waits for it on the host sleeps.
inline std::unique_ptr<Event> make_event(const SharedContext& context) {
  const DeviceContext::Scope scope(*context);
  EventHandle handle = nullptr;
  context->driver().event_create(&handle, kEventDisableTiming | kEventBlockingSync);
  return std::make_unique<Event>(context, handle);
}

/// Throws Error, with kErrorOutOfMemory if there is not so much.
inline std::unique_ptr<DeviceMemory> make_device_memory(const SharedContext& context,
                                                        std::size_t bytes) {
  const DeviceContext::RelaxedScope scope(*context);
  Address address = 0;
  context->driver().memory_alloc(&address, bytes);
  return std::make_unique<DeviceMemory>(context, address);
}

/// Host memory that the device reads by itself. Throws Error as above.
inline std::unique_ptr<PinnedMemory> make_pinned_memory(const SharedContext& context,
                                                        std::size_t bytes) {
  const DeviceContext::RelaxedScope scope(*context);
  void* memory = nullptr;
  context->driver().host_alloc(&memory, bytes, kHostAllocPortable);
  return std::make_unique<PinnedMemory>(context, memory);
}

/// Pinned memory that other processes write, too.
class SharedPinnedMemory {
 public:
  /// Throws std::bad_alloc, and Error as above.
  SharedPinnedMemory(SharedContext context, std::size_t bytes)
      : SharedPinnedMemory(std::move(context),
                           std::make_shared<const SharedMemory>(bytes)) {}
  /// Of memory that is there.
  SharedPinnedMemory(SharedContext context, std::shared_ptr<const SharedMemory> memory)
      : context_(std::move(context)), memory_(std::move(memory)) {
    const DeviceContext::RelaxedScope scope(*context_);
    context_->driver().host_register(static_cast<void*>(memory_->data()),
                                     memory_->bytes(), kHostRegisterPortable);
  }
  ~SharedPinnedMemory() {
    if (!context_->of_this_process()) return;  // as in Owned
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      context_->driver().calls().host_unregister(memory_->data());
    } catch (const Error&) {  // as in Owned
    }
  }
  SharedPinnedMemory(const SharedPinnedMemory&) = delete;
  SharedPinnedMemory& operator=(const SharedPinnedMemory&) = delete;

  const SharedMemory& memory() const { return *memory_; }

 private:
  const SharedContext context_;
  const std::shared_ptr<const SharedMemory> memory_;
};

}  // namespace echobuf::cuda
