// The simulated driver: its contexts, streams and events, and what is ordered before
// what. One mutex guards all of it but the queues, the memory and the reports, which
// have their own and never take this one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture.hpp"
#include "clock.hpp"
#include "echobuf/cuda/api.hpp"
#include "memory.hpp"
#include "reports.hpp"
#include "stream.hpp"

namespace echobuf::simulated {

struct Settings {
  std::uint64_t seed = 0;
  int devices = 2;
  std::size_t bytes_per_device = std::size_t{1} << 30;
  std::size_t pinned_bytes = std::size_t{1} << 30;
  unsigned largest_delay_us = 20;
};

/// A call of the driver ends with this code.
struct Failure {
  cuda::Result code;
};

struct Context;

struct StreamState {
  cuda::StreamHandle handle = nullptr;
  std::shared_ptr<Stream> queue;
  Context* context = nullptr;
  bool blocking = true;  // synchronises with the legacy stream
  bool legacy = false;
  bool destroyed = false;
  std::uint64_t enqueued = 0;
  VectorClock clock;  // of all that is enqueued
  CaptureState capture;

  std::string text() const { return "stream " + std::to_string(queue->number()); }
};

struct EventState {
  Context* context = nullptr;
  std::size_t number = 0;
  bool destroyed = false;
  std::optional<Position> recorded;
  VectorClock clock;     // of what the record is after
  CaptureState capture;  // where it was last recorded, if in a capture
};

/// A device's primary context, from the first retain to the last release.
struct Context {
  int device = 0;
  int retains = 0;
  bool destroyed = false;
  StreamState* legacy = nullptr;
  std::map<std::size_t, StreamState*> per_thread;
};

class World {
 public:
  World(Settings settings, Reports& reports);

  std::mutex mutex;
  const Settings settings;
  Reports& reports;
  Memory memory;
  /// The error that every call returns after an illegal access, or 0.
  cuda::Result lost() const { return lost_.load(std::memory_order_relaxed); }
  void lose(cuda::Result code) {
    lost_.store(code, std::memory_order_relaxed);
    reports.close();  // nothing can be given back
  }

  // contexts.cpp. `device` of those that take one is checked.
  cuda::Context retain(int device);
  void release(int device);
  void push_context(cuda::Context context);
  cuda::Context pop_context();
  /// Null where the thread has pushed none.
  cuda::Context top_context();
  Context& current();
  void check_device(int device) const;

  // handles.cpp: what a handle means, or Failure. `symbol` is the call that asks.
  cuda::StreamHandle create_stream(bool blocking);
  StreamState& stream(const char* symbol, cuda::StreamHandle handle);
  /// As `stream`, of those that have a handle, and without a current context.
  StreamState& find_stream(const char* symbol, cuda::StreamHandle handle);
  /// Null where the stream is gone; that is no report.
  StreamState* live_stream(cuda::StreamHandle handle);
  void destroy_stream(cuda::StreamHandle handle);
  /// Streams get the handles of streams that are gone, as a real driver's may.
  void reuse_handles(bool reuse) { reuses_handles_ = reuse; }
  cuda::EventHandle create_event();
  EventState& event(const char* symbol, cuda::EventHandle handle);
  void destroy_event(cuda::EventHandle handle);

  // ordering.cpp
  /// Puts an operation behind all that is in the stream, or into its capture. It is
  /// ordered after what the host did so far and after `after`, and waits for `waits`.
  void enqueue(StreamState& stream, Work work, std::vector<Position> waits = {},
               const VectorClock& after = {});
  /// Waits, without the lock, while the queue of a stream is full.
  void await_room(std::unique_lock<std::mutex>& lock, const StreamState& stream) const;
  void record(EventState& event, StreamState& stream);
  void wait_event(StreamState& stream, const EventState& event);
  Position position(const StreamState& stream) const;
  /// From now on the host is after all that `clock` is after.
  void order_host_after(const VectorClock& clock) { host_.join(clock); }
  Actor host() const { return {host_label_, host_, -1}; }
  std::vector<Position> all_positions() const;
  /// The end of all that is enqueued in a context, on streams that are gone, too.
  std::pair<std::vector<Position>, VectorClock> everything(
      const Context& context) const;

  // capturing.cpp
  Captures captures;
  Graphs graphs;
  bool blocking_stream_is_captured(const Context& context) const;
  void begin_capture(StreamState& stream, int mode);
  Graph end_capture(StreamState& stream);

  /// Lets all streams finish, joins them and reports what leaks. Called once.
  void end();

 private:
  StreamState& add_stream(Context& context, bool blocking);
  StreamState& legacy_stream();
  StreamState& per_thread_stream();
  void execute(const Operation& operation, std::size_t stream, int device) const;
  void destroy_context(Context& context);
  void report_leaks(const Context& context);
  void close(StreamState& stream);
  void reap();
  void order_with_legacy(const StreamState& stream, VectorClock& clock,
                         std::vector<Position>& waits) const;
  void capture(StreamState& stream, Work work);
  void refuse_implicit_capture(const StreamState& stream) const;
  void wait_in_capture(StreamState& stream, const EventState& event);

  template <class State>
  using Table = std::map<void*, std::unique_ptr<State>>;  // by handle, destroyed too

  std::vector<Context*> primary_;  // by device; null while it is not retained
  Table<Context> contexts_;
  Table<StreamState> streams_;
  Table<EventState> events_;
  std::map<std::size_t, std::vector<cuda::Context>> pushed_;  // by thread
  std::vector<std::shared_ptr<Stream>> closed_;  // with threads to be joined
  std::size_t streams_made_ = 0;
  bool reuses_handles_ = false;
  std::size_t events_made_ = 0;
  VectorClock host_;
  LabelPointer host_label_;
  std::atomic<cuda::Result> lost_{cuda::kSuccess};  // relaxed: it orders nothing
  mutable std::mutex executing_;  // so that a race is found by the clocks alone
};

/// A handle that nothing had before, and that points nowhere.
void* new_handle();

/// A number of the calling thread's own.
std::size_t thread_number();

/// The operation that the calling thread executes, if it is a stream's.
struct Running {
  const Actor* actor = nullptr;
  Memory* memory = nullptr;
};
Running& running();

}  // namespace echobuf::simulated
