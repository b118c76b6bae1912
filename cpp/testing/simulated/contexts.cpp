// Primary contexts, and the stack of them that each thread has.
#include "world.hpp"

namespace echobuf::simulated {

namespace {

constexpr cuda::Result kContextIsDestroyed = 709;

}  // namespace

void World::check_device(int device) const {
  if (device < 0 || device >= settings.devices)
    throw Failure{cuda::kErrorInvalidDevice};
}

cuda::Context World::retain(int device) {
  check_device(device);
  Context*& primary = primary_[static_cast<std::size_t>(device)];
  if (!primary) {
    auto context = std::make_unique<Context>();
    context->device = device;
    primary = context.get();
    contexts_.emplace(new_handle(), std::move(context));
  }
  ++primary->retains;
  for (const auto& [handle, context] : contexts_)
    if (context.get() == primary) return handle;
  return nullptr;  // never
}

void World::release(int device) {
  check_device(device);
  Context* primary = primary_[static_cast<std::size_t>(device)];
  if (!primary) throw Failure{cuda::kErrorInvalidContext};
  if (--primary->retains == 0) destroy_context(*primary);
}

void World::push_context(cuda::Context context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) throw Failure{cuda::kErrorInvalidContext};
  if (found->second->destroyed) {
    reports.add("destroyed handle: cuCtxPushCurrent of a context that was released");
    throw Failure{cuda::kErrorInvalidContext};
  }
  pushed_[thread_number()].push_back(context);
}

cuda::Context World::pop_context() {
  auto& stack = pushed_[thread_number()];
  if (stack.empty()) throw Failure{cuda::kErrorInvalidContext};
  cuda::Context top = stack.back();
  stack.pop_back();
  return top;
}

cuda::Context World::top_context() {
  const auto& stack = pushed_[thread_number()];
  return stack.empty() ? nullptr : stack.back();
}

Context& World::current() {
  const auto& stack = pushed_[thread_number()];
  if (stack.empty()) throw Failure{cuda::kErrorInvalidContext};
  Context& context = *contexts_.at(stack.back());
  if (context.destroyed) throw Failure{kContextIsDestroyed};
  return context;
}

/// Lets its streams finish, as the driver does, and takes all that is left in it.
void World::destroy_context(Context& context) {
  report_leaks(context);
  for (auto& [handle, stream] : streams_) stream->queue->hold(false);
  for (auto& [handle, stream] : streams_)
    if (stream->context == &context && !stream->destroyed) close(*stream);
  for (const auto& stream : closed_) stream->join();
  for (auto& [handle, event] : events_)
    if (event->context == &context) event->destroyed = true;
  context.destroyed = true;
  primary_[static_cast<std::size_t>(context.device)] = nullptr;
  memory.report_leaks(context.device);
}

void World::report_leaks(const Context& context) {
  const std::string device = " of device " + std::to_string(context.device);
  if (context.retains > 0)
    reports.add("leak: the primary context" + device + " is retained " +
                std::to_string(context.retains) + " times");
  for (const auto& [handle, stream] : streams_) {
    const bool has_handle = stream->handle != nullptr;  // the driver's own have none
    if (stream->context == &context && has_handle && !stream->destroyed)
      reports.add("leak: " + stream->text() + device);
  }
  for (const auto& [handle, event] : events_)
    if (event->context == &context && !event->destroyed)
      reports.add("leak: event " + std::to_string(event->number) + device);
}

}  // namespace echobuf::simulated
