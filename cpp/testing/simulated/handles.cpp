// Streams and events by their handles.
#include "world.hpp"

namespace echobuf::simulated {

StreamState& World::add_stream(Context& context, bool blocking) {
  reap();
  auto state = std::make_unique<StreamState>();
  const std::size_t number = ++streams_made_;
  const int device = context.device;
  state->queue = std::make_shared<Stream>(
      number,
      [this, number, device](const Operation& done) { execute(done, number, device); });
  state->context = &context;
  state->blocking = blocking;
  return *streams_.emplace(new_handle(), std::move(state)).first->second;
}

cuda::StreamHandle World::create_stream(bool blocking) {
  StreamState& added = add_stream(current(), blocking);
  void* own = nullptr;
  void* gone = nullptr;
  for (const auto& [handle, stream] : streams_) {
    if (stream.get() == &added) own = handle;
    if (stream->destroyed) gone = handle;
  }
  if (reuses_handles_ && gone) {
    auto first = streams_.extract(own);
    auto second = streams_.extract(gone);
    std::swap(first.key(), second.key());
    std::swap(own, gone);
    streams_.insert(std::move(first));
    streams_.insert(std::move(second));
  }
  return added.handle = own;
}

StreamState& World::legacy_stream() {
  Context& context = current();
  if (!context.legacy) {
    context.legacy = &add_stream(context, true);
    context.legacy->legacy = true;
  }
  return *context.legacy;
}

StreamState& World::per_thread_stream() {
  Context& context = current();
  StreamState*& stream = context.per_thread[thread_number()];
  if (!stream) stream = &add_stream(context, true);
  return *stream;
}

StreamState& World::stream(const char* symbol, cuda::StreamHandle handle) {
  current();
  if (handle == nullptr || handle == cuda::kLegacyStream) return legacy_stream();
  if (handle == cuda::kPerThreadStream) return per_thread_stream();
  return find_stream(symbol, handle);
}

StreamState& World::find_stream(const char* symbol, cuda::StreamHandle handle) {
  const auto found = streams_.find(handle);
  if (found == streams_.end() || !found->second->handle)
    throw Failure{cuda::kErrorInvalidHandle};
  if (found->second->destroyed) {
    reports.add("destroyed handle: " + std::string(symbol) + " on " +
                found->second->text() + ", which was destroyed");
    throw Failure{cuda::kErrorInvalidHandle};
  }
  return *found->second;
}

StreamState* World::live_stream(cuda::StreamHandle handle) {
  const auto found = streams_.find(handle);
  const bool lives = found != streams_.end() && !found->second->destroyed;
  return lives ? found->second.get() : nullptr;
}

void World::destroy_stream(cuda::StreamHandle handle) {
  StreamState& found = stream("cuStreamDestroy", handle);
  if (!found.handle) throw Failure{cuda::kErrorInvalidHandle};
  close(found);
}

cuda::EventHandle World::create_event() {
  Context& context = current();
  auto state = std::make_unique<EventState>();
  state->context = &context;
  state->number = ++events_made_;
  return events_.emplace(new_handle(), std::move(state)).first->first;
}

EventState& World::event(const char* symbol, cuda::EventHandle handle) {
  current();
  const auto found = events_.find(handle);
  if (found == events_.end()) throw Failure{cuda::kErrorInvalidHandle};
  if (found->second->destroyed) {
    reports.add("destroyed handle: " + std::string(symbol) + " on event " +
                std::to_string(found->second->number) + ", which was destroyed");
    throw Failure{cuda::kErrorInvalidHandle};
  }
  return *found->second;
}

void World::destroy_event(cuda::EventHandle handle) {
  EventState& found = event("cuEventDestroy", handle);
  found.destroyed = true;
  found.recorded.reset();  // what it keeps of its stream
}

}  // namespace echobuf::simulated
