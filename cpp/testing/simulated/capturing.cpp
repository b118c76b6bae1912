// Operations of a stream while it is captured.
#include <algorithm>
#include <utility>

#include "graphs.hpp"
#include "world.hpp"

namespace echobuf::simulated {

namespace {

[[noreturn]] void invalidate(Capture& capture, cuda::Result code) {
  capture.invalid = true;
  throw Failure{code};
}

}  // namespace

void World::begin_capture(StreamState& stream, int mode) {
  if (stream.legacy) throw Failure{cuda::kErrorStreamCaptureUnsupported};
  if (stream.capture.active()) throw Failure{kErrorIllegalState};
  auto capture = std::make_shared<Capture>();
  capture->origin = stream.queue->number();
  capture->thread = thread_number();
  capture->mode = mode;
  captures.add(capture);
  stream.capture = {std::move(capture), {}};
}

Graph World::end_capture(StreamState& stream) {
  if (!stream.capture.active()) throw Failure{kErrorIllegalState};
  const CaptureState state = stream.capture;
  Capture& capture = *state.capture;
  if (capture.origin != stream.queue->number())
    invalidate(capture, kErrorCaptureUnmatched);
  if (capture.mode != cuda::kCaptureRelaxed && capture.thread != thread_number())
    throw Failure{kErrorCaptureWrongThread};
  capture.ended = true;
  captures.remove(state.capture);
  if (capture.invalid) throw Failure{cuda::kErrorStreamCaptureInvalidated};
  if (!state.after.covers(capture.all)) throw Failure{kErrorCaptureUnjoined};
  return std::move(capture.nodes);
}

void World::capture(StreamState& stream, Work work) {
  Capture& capture = *stream.capture.capture;
  if (capture.invalid) throw Failure{cuda::kErrorStreamCaptureInvalidated};
  if (!work.run) return;  // order alone
  const std::size_t number = stream.queue->number();
  capture.nodes.push_back(std::move(work));
  capture.all.set(number, capture.all.at(number) + 1);
  stream.capture.after.set(number, capture.all.at(number));
}

bool World::blocking_stream_is_captured(const Context& context) const {
  return std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
    const StreamState& stream = *entry.second;
    return stream.context == &context && stream.blocking && stream.capture.active();
  });
}

/// The legacy stream would wait for a stream that is captured.
void World::refuse_implicit_capture(const StreamState& stream) const {
  if (!stream.legacy) return;
  for (const auto& [handle, other] : streams_)
    if (other->context == stream.context && other->blocking && other->capture.active())
      invalidate(*other->capture.capture, cuda::kErrorStreamCaptureImplicit);
}

/// A wait for an event of a capture takes the stream into it.
void World::wait_in_capture(StreamState& stream, const EventState& event) {
  CaptureState& mine = stream.capture;
  if (!event.capture.active()) invalidate(*mine.capture, kErrorCaptureIsolation);
  if (stream.legacy)
    invalidate(*event.capture.capture, cuda::kErrorStreamCaptureImplicit);
  if (mine.active() && mine.capture != event.capture.capture) {
    mine.capture->invalid = true;
    invalidate(*event.capture.capture, kErrorCaptureMerge);
  }
  if (!mine.active()) mine = {event.capture.capture, {}};
  mine.after.join(event.capture.after);
}

}  // namespace echobuf::simulated
