// The driver's calls that allocate, free and copy memory.
#include <cstring>
#include <vector>

#include "library.hpp"

using namespace echobuf::simulated;  // NOLINT(google-build-using-namespace)
namespace cuda = echobuf::cuda;

namespace {

void* pointer(cuda::Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// Copies as an operation of a stream, if both ends are what they should be.
void copy(const Actor& actor, void* to, const void* from, std::size_t bytes) {
  Memory& memory = *running().memory;
  const bool readable = memory.access(actor, number(from), bytes, false);
  const bool writable = memory.access(actor, number(to), bytes, true);
  if (readable && writable) std::memmove(to, from, bytes);
}

void require_kind(World& world, const void* address, Kind kind) {
  if (world.memory.kind_of(number(address)) != kind)
    throw Failure{cuda::kErrorInvalidValue};
}

/// True if host memory is pinned. Device memory is not host memory.
bool is_pinned(World& world, const void* address) {
  const std::optional<Kind> kind = world.memory.kind_of(number(address));
  if (kind == Kind::kDevice) throw Failure{cuda::kErrorInvalidValue};
  return kind.has_value();
}

/// Actions of the host between two calls are never before captured operations.
void refuse_pageable_in_capture(const StreamState& stream) {
  if (!stream.capture.active()) return;
  stream.capture.capture->invalid = true;
  throw Failure{cuda::kErrorStreamCaptureUnsupported};
}

Work copying(const char* name, void* to, const void* from, std::size_t bytes) {
  return {name, [=](const Actor& actor) { copy(actor, to, from, bytes); }};
}

}  // namespace

cuda::Result cuda::cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return call("cuMemGetInfo_v2", [&](World& world, Lock&) {
    require(free);
    require(total);
    *free = world.memory.bytes_free(world.current().device);
    *total = world.memory.bytes_total();
  });
}

cuda::Result cuda::cuMemAlloc_v2(Address* address, std::size_t bytes) {
  return call("cuMemAlloc_v2", [&](World& world, Lock&) {
    const int device = world.current().device;
    require(address);
    require(bytes);
    refuse_in_capture(world);
    void* memory = world.memory.allocate(Kind::kDevice, device, bytes);
    if (!memory) throw Failure{kErrorOutOfMemory};
    *address = number(memory);
  });
}

cuda::Result cuda::cuMemFree_v2(Address address) {
  return call("cuMemFree_v2", [&](World& world, Lock&) {
    world.current();
    refuse_in_capture(world);
    if (!world.memory.free(Kind::kDevice, address, world.host(), true))
      throw Failure{kErrorInvalidValue};
  });
}

cuda::Result cuda::cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return call("cuMemHostAlloc", [&](World& world, Lock&) {
    constexpr unsigned kAllFlags = 7;
    world.current();
    require(memory);
    require(bytes);
    require(flags <= kAllFlags);
    refuse_in_capture(world);
    *memory = world.memory.allocate(Kind::kPinned, -1, bytes);
    if (!*memory) throw Failure{kErrorOutOfMemory};
  });
}

cuda::Result cuda::cuMemFreeHost(void* memory) {
  return call("cuMemFreeHost", [&](World& world, Lock&) {
    world.current();
    refuse_in_capture(world);
    if (!world.memory.free(Kind::kPinned, number(memory), world.host(), true))
      throw Failure{kErrorInvalidValue};
  });
}

cuda::Result cuda::cuMemHostRegister_v2(void* memory, std::size_t bytes,
                                        unsigned flags) {
  return call("cuMemHostRegister_v2", [&](World& world, Lock&) {
    constexpr unsigned kAllFlags = 15;
    world.current();
    require(memory);
    require(bytes);
    require(flags <= kAllFlags);
    refuse_in_capture(world);
    if (!world.memory.adopt(number(memory), bytes))
      throw Failure{kErrorHostMemoryAlreadyRegistered};
  });
}

cuda::Result cuda::cuMemHostUnregister(void* memory) {
  return call("cuMemHostUnregister", [&](World& world, Lock&) {
    world.current();
    refuse_in_capture(world);
    if (!world.memory.give_back(number(memory), world.host()))
      throw Failure{kErrorHostMemoryNotRegistered};
  });
}

cuda::Result cuda::cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes,
                                        StreamHandle handle) {
  return call("cuMemcpyHtoDAsync_v2", [&](World& world, Lock& lock) {
    constexpr const char* kName = "cuMemcpyHtoDAsync";
    StreamState& stream = world.stream(kName, handle);
    if (bytes == 0) return;
    world.await_room(lock, stream);
    require(from);
    require_kind(world, pointer(to), Kind::kDevice);
    if (is_pinned(world, from))
      return world.enqueue(stream, copying(kName, pointer(to), from, bytes));
    refuse_pageable_in_capture(stream);
    const auto* const first = static_cast<const unsigned char*>(from);
    world.enqueue(
        stream,
        {kName, [to, staged = std::vector(first, first + bytes)](const Actor& actor) {
           Memory& memory = *running().memory;
           if (memory.access(actor, to, staged.size(), true))
             std::memcpy(pointer(to), staged.data(), staged.size());
         }});
  });
}

cuda::Result cuda::cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes,
                                        StreamHandle handle) {
  return call("cuMemcpyDtoHAsync_v2", [&](World& world, Lock& lock) {
    constexpr const char* kName = "cuMemcpyDtoHAsync";
    StreamState& stream = world.stream(kName, handle);
    if (bytes == 0) return;
    world.await_room(lock, stream);
    require(to);
    require_kind(world, pointer(from), Kind::kDevice);
    if (is_pinned(world, to))
      return world.enqueue(stream, copying(kName, to, pointer(from), bytes));
    refuse_pageable_in_capture(stream);
    world.enqueue(stream, {kName, [=](const Actor& actor) {
                             if (running().memory->access(actor, from, bytes, false))
                               std::memcpy(to, pointer(from), bytes);
                           }});
    const Position end = world.position(stream);
    const VectorClock clock = stream.clock;
    lock.unlock();
    end.wait();
    lock.lock();
    world.order_host_after(clock);
  });
}

cuda::Result cuda::cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes,
                                        StreamHandle handle) {
  return call("cuMemcpyDtoDAsync_v2", [&](World& world, Lock& lock) {
    constexpr const char* kName = "cuMemcpyDtoDAsync";
    StreamState& stream = world.stream(kName, handle);
    if (bytes == 0) return;
    world.await_room(lock, stream);
    require_kind(world, pointer(to), Kind::kDevice);
    require_kind(world, pointer(from), Kind::kDevice);
    world.enqueue(stream, copying(kName, pointer(to), pointer(from), bytes));
  });
}
