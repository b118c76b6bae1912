// The driver's calls on streams and events.
#include <utility>

#include "graphs.hpp"
#include "library.hpp"

using namespace echobuf::simulated;  // NOLINT(google-build-using-namespace)
namespace cuda = echobuf::cuda;

namespace {

/// For calls that wait for, or look at, what would only run when a graph is launched.
void refuse_captured(const CaptureState& state, cuda::Result code) {
  if (!state.active()) return;
  state.capture->invalid = true;
  throw Failure{code};
}

/// Waits without the lock, and then orders the host after what was waited for.
void wait_for(World& world, Lock& lock, const Position& position,
              const VectorClock& clock) {
  // As they are at the call: others may record the event, or enqueue, meanwhile.
  const auto [end, at_end] = std::pair(position, clock);
  lock.unlock();
  end.wait();
  lock.lock();
  world.order_host_after(at_end);
}

}  // namespace

cuda::Result cuda::cuStreamCreate(StreamHandle* stream, unsigned flags) {
  return call("cuStreamCreate", [&](World& world, Lock&) {
    world.current();
    require(stream);
    require(flags <= kStreamNonBlocking);
    *stream = world.create_stream(flags != kStreamNonBlocking);
  });
}

cuda::Result cuda::cuStreamDestroy_v2(StreamHandle stream) {
  return call("cuStreamDestroy_v2",
              [&](World& world, Lock&) { world.destroy_stream(stream); });
}

cuda::Result cuda::cuStreamSynchronize(StreamHandle handle) {
  return call("cuStreamSynchronize", [&](World& world, Lock& lock) {
    StreamState& stream = world.stream("cuStreamSynchronize", handle);
    refuse_captured(stream.capture, kErrorStreamCaptureUnsupported);
    refuse_in_capture(world);
    if (stream.legacy) world.enqueue(stream, {"cuStreamSynchronize", nullptr});
    wait_for(world, lock, world.position(stream), stream.clock);
  });
}

cuda::Result cuda::cuCtxSynchronize() {
  return call("cuCtxSynchronize", [&](World& world, Lock& lock) {
    refuse_in_capture(world);
    const auto [positions, clock] = world.everything(world.current());
    lock.unlock();
    for (const Position& position : positions) position.wait();
    lock.lock();
    world.order_host_after(clock);
  });
}

cuda::Result cuda::cuStreamWaitEvent(StreamHandle handle, EventHandle event,
                                     unsigned flags) {
  return call("cuStreamWaitEvent", [&](World& world, Lock& lock) {
    require(flags <= 1);  // CU_EVENT_WAIT_EXTERNAL
    StreamState& stream = world.stream("cuStreamWaitEvent", handle);
    world.await_room(lock, stream);
    world.wait_event(stream, world.event("cuStreamWaitEvent", event));
  });
}

cuda::Result cuda::cuStreamGetCaptureInfo(StreamHandle handle, int* status,
                                          std::uint64_t* id) {
  return call("cuStreamGetCaptureInfo", [&](World& world, Lock&) {
    require(status);
    StreamState& stream = world.stream("cuStreamGetCaptureInfo", handle);
    if (stream.legacy && world.blocking_stream_is_captured(*stream.context))
      throw Failure{kErrorStreamCaptureImplicit};
    *status = kCaptureNone;
    if (!stream.capture.active()) return;
    const Capture& capture = *stream.capture.capture;
    *status = capture.invalid ? kCaptureInvalidated : kCaptureActive;
    if (id && !capture.invalid) *id = capture.id;
  });
}

cuda::Result cuda::cuStreamGetId(StreamHandle handle, unsigned long long* id) {
  return call("cuStreamGetId", [&](World& world, Lock&) {
    require(id);
    *id = world.stream("cuStreamGetId", handle).queue->number();
  });
}

cuda::Result cuda::cuThreadExchangeStreamCaptureMode(int* mode) {
  return call("cuThreadExchangeStreamCaptureMode", [&](World&, Lock&) {
    require(mode);
    require(*mode >= kCaptureGlobal && *mode <= kCaptureRelaxed);
    std::swap(*mode, thread_capture_mode());
  });
}

cuda::Result cuda::cuEventCreate(EventHandle* event, unsigned flags) {
  return call("cuEventCreate", [&](World& world, Lock&) {
    constexpr unsigned kAllFlags = 7;
    world.current();
    require(event);
    require(flags <= kAllFlags);
    *event = world.create_event();
  });
}

cuda::Result cuda::cuEventDestroy_v2(EventHandle event) {
  return call("cuEventDestroy_v2",
              [&](World& world, Lock&) { world.destroy_event(event); });
}

cuda::Result cuda::cuEventRecord(EventHandle event, StreamHandle handle) {
  return call("cuEventRecord", [&](World& world, Lock& lock) {
    StreamState& stream = world.stream("cuEventRecord", handle);
    world.await_room(lock, stream);
    world.record(world.event("cuEventRecord", event), stream);
  });
}

cuda::Result cuda::cuEventQuery(EventHandle handle) {
  return call("cuEventQuery", [&](World& world, Lock&) {
    const EventState& event = world.event("cuEventQuery", handle);
    refuse_captured(event.capture, kErrorCapturedEvent);
    refuse_in_capture(world);
    if (!event.recorded) return;
    if (!event.recorded->done()) throw Failure{kErrorNotReady};
    world.order_host_after(event.clock);
  });
}

cuda::Result cuda::cuEventSynchronize(EventHandle handle) {
  return call("cuEventSynchronize", [&](World& world, Lock& lock) {
    const EventState& event = world.event("cuEventSynchronize", handle);
    refuse_captured(event.capture, kErrorCapturedEvent);
    refuse_in_capture(world);
    if (event.recorded) wait_for(world, lock, *event.recorded, event.clock);
  });
}
