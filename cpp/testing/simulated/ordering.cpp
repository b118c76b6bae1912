// The order of operations. All of it is known when a call is made, long before the
// operations run: their clocks do not depend on the timing.
#include <utility>

#include "world.hpp"

namespace echobuf::simulated {

Position World::position(const StreamState& stream) const {
  return {stream.queue, stream.enqueued};
}

std::vector<Position> World::all_positions() const {
  std::vector<Position> positions;
  for (const auto& [handle, stream] : streams_) positions.push_back(position(*stream));
  return positions;
}

std::pair<std::vector<Position>, VectorClock> World::everything(
    const Context& context) const {
  std::pair<std::vector<Position>, VectorClock> all;
  for (const auto& [handle, stream] : streams_) {
    if (stream->context != &context) continue;
    all.first.push_back(position(*stream));
    all.second.join(stream->clock);
  }
  return all;
}

/// The legacy stream waits for all blocking streams of its context, and they for it.
void World::order_with_legacy(const StreamState& stream, VectorClock& clock,
                              std::vector<Position>& waits) const {
  if (!stream.blocking) return;
  for (const auto& [handle, other] : streams_) {
    const bool orders = stream.legacy || other->legacy;
    if (other.get() == &stream || other->context != stream.context || !orders ||
        !other->blocking)
      continue;
    clock.join(other->clock);
    waits.push_back(position(*other));
  }
}

void World::enqueue(StreamState& stream, Work work, std::vector<Position> waits,
                    const VectorClock& after) {
  if (stream.capture.active()) return capture(stream, std::move(work));
  refuse_implicit_capture(stream);
  VectorClock& clock = stream.clock;
  clock.join(host_);
  clock.join(after);
  order_with_legacy(stream, clock, waits);
  const std::size_t number = stream.queue->number();
  clock.set(number, ++stream.enqueued);
  auto label = std::make_shared<const Label>(
      Label{std::move(work.name), number, stream.enqueued});
  stream.queue->push({std::move(label), clock, std::move(waits), std::move(work.run)});
  // The host's actions from now on are not before that operation.
  const std::uint64_t tick = host_.at(kHost) + 1;
  host_.set(kHost, tick);
  host_label_ = std::make_shared<const Label>(Label{"host", kHost, tick});
}

void World::await_room(std::unique_lock<std::mutex>& lock,
                       const StreamState& stream) const {
  const std::shared_ptr<Stream> queue = stream.queue;
  while (!stream.capture.active() && queue->full()) {
    lock.unlock();
    queue->wait_for_room();
    lock.lock();
    if (stream.destroyed) throw Failure{cuda::kErrorInvalidHandle};
  }
}

void World::record(EventState& event, StreamState& stream) {
  if (event.context != stream.context) throw Failure{cuda::kErrorInvalidHandle};
  enqueue(stream, {"cuEventRecord", nullptr});
  event.capture = stream.capture;
  if (stream.capture.active()) return;
  event.recorded = position(stream);
  event.clock = stream.clock;
}

void World::wait_event(StreamState& stream, const EventState& event) {
  if (event.capture.active() || stream.capture.active())
    return wait_in_capture(stream, event);
  if (!event.recorded) return;
  enqueue(stream, {"cuStreamWaitEvent", nullptr}, {*event.recorded}, event.clock);
}

}  // namespace echobuf::simulated
