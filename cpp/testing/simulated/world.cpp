#include "world.hpp"

#include <thread>
#include <utility>

#include "delays.hpp"

namespace echobuf::simulated {

void* new_handle() {
  static std::atomic<std::uintptr_t> last{0};
  constexpr std::uintptr_t kNowhere = std::uintptr_t{0xEC} << 56;
  return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
      kNowhere + 16 * ++last);
}

std::size_t thread_number() {
  static std::atomic<std::size_t> last{0};
  thread_local const std::size_t number = ++last;
  return number;
}

Running& running() {
  thread_local Running running;
  return running;
}

World::World(Settings settings_, Reports& reports_)
    : settings(settings_),
      reports(reports_),
      memory(reports_, settings_.devices, settings_.bytes_per_device,
             settings_.pinned_bytes),
      primary_(static_cast<std::size_t>(settings_.devices)) {
  host_.set(kHost, 1);
  host_label_ = std::make_shared<const Label>(Label{"host", kHost, 1});
}

/// On a stream's thread. One operation at a time runs, whatever its stream: programs
/// that race are reported by the clocks, and not by ThreadSanitizer or a crash.
void World::execute(const Operation& operation, std::size_t stream, int device) const {
  const auto pause =
      delay(settings.seed, stream, operation.label->tick, settings.largest_delay_us);
  if (pause.count() > 0) std::this_thread::sleep_for(pause);
  for (const Position& wait : operation.waits) wait.wait();
  if (!operation.run || lost() != cuda::kSuccess) return;
  const Actor actor{operation.label, operation.clock, device};
  const std::lock_guard lock(executing_);
  running() = {&actor, const_cast<Memory*>(&memory)};
  operation.run(actor);
  running() = {};
}

void World::close(StreamState& stream) {
  stream.destroyed = true;
  stream.queue->close();
  closed_.push_back(stream.queue);
}

/// Joins the threads of closed streams that have nothing left to do.
void World::reap() {
  std::erase_if(closed_, [](const std::shared_ptr<Stream>& stream) {
    if (!stream->finished()) return false;
    stream->join();
    return true;
  });
}

void World::end() {
  const std::lock_guard lock(mutex);
  for (auto& [handle, context] : contexts_)
    if (!context->destroyed) destroy_context(*context);
  for (const auto& stream : closed_) stream->join();
  closed_.clear();
  for (const auto& [thread, contexts] : pushed_)
    if (!contexts.empty())
      reports.add("leak: thread " + std::to_string(thread) + " left " +
                  std::to_string(contexts.size()) + " contexts pushed");
  const std::size_t left = graphs.captured.size() + graphs.executable.size();
  if (left > 0) reports.add("leak: " + std::to_string(left) + " graphs");
  memory.report_leaks(-1);
}

}  // namespace echobuf::simulated
