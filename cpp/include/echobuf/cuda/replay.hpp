// Draws in graphs, as the host knows of them: which captures have one, and whether the
// slots of the last batch may still be read by a launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/handles.hpp"

namespace echobuf::cuda {

/// A batch that before_replay() has planned, and that the caller's launches of a graph
/// read unseen. The next call of the consumer ends it, and records an event behind
/// them.
class Replay {
 public:
  explicit Replay(DrawOrder& order) : order_(order) {}

  /// Waits for the last launches, whose memory may be freed then.
  ~Replay() {
    if (!stream_) return;
    try {
      const DeviceContext::RelaxedScope scope(order_.context(), std::nothrow);
      if (is_elsewhere(*stream_))
        order_.await_all();
      else
        order_.await(*stream_);
    } catch (const Error&) {  // no stream has that handle any more
      order_.await_all();
    }
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// A batch was planned on `stream`, where the graph is to be launched.
  void expect(StreamHandle stream) {
    stream_ = stream;
    place_ = order_.here();
    thread_ = thread_number();
  }

  /// Ends the plan, on which nothing more is launched. Enqueues `last` behind the
  /// launches, and records the event that the uploader waits for to write its slots.
  /// False if no batch is expected.
  template <class Last>
  bool finish(Last&& last) {
    if (!stream_) return false;
    const DeviceContext::Scope scope(order_.context());
    refuse_in_capture();
    const StreamHandle stream = *std::exchange(stream_, std::nullopt);
    enqueue(stream, [&] {
      const bool elsewhere = is_elsewhere(stream);
      if (elsewhere) order_.context().driver().context_synchronize();
      std::forward<Last>(last)(stream);
      order_.note_launches(stream, elsewhere ? DrawOrder::Place() : place_);
    });
    return true;
  }

  /// False if there is a draw in that capture already.
  bool note_capture(std::uint64_t id) {
    if (capture_ == id) return false;
    capture_ = id;
    return true;
  }

 private:
  /// A number that no other thread has, or had: the system uses its own again.
  static std::uint64_t thread_number() {
    static std::atomic<std::uint64_t> last{0};  // relaxed: it orders nothing
    thread_local const std::uint64_t number =
        last.fetch_add(1, std::memory_order_relaxed);
    return number;
  }

  /// Returns whether the handle means another stream by now: the one of the calling
  /// thread, or one that was made since.
  bool is_elsewhere(StreamHandle stream) const {
    if (stream == kPerThreadStream) return thread_ != thread_number();
    return order_.place_of(stream) != place_;
  }

  /// An event would become part of the graph. Nothing is lost: that capture will end.
  void refuse_in_capture() {
    std::optional<std::uint64_t> capture;
    try {
      capture = order_.capture_of(*stream_);
    } catch (const Error& error) {
      if (!DrawOrder::is_of_capture(error))
        lose(*std::exchange(stream_, std::nullopt), error);
      throw;
    }
    if (capture)
      throw Error(kErrorStreamCaptureUnsupported,
                  "the stream of the last before_replay is being captured");
  }

  template <class Enqueue>
  void enqueue(StreamHandle stream, Enqueue&& all) try {
    all();
  } catch (const Error& error) {
    lose(stream, error);
    throw;
  }

  void lose(StreamHandle stream, const Error& error) {
    order_.lose_draw(stream, error);
  }

  DrawOrder& order_;
  std::optional<StreamHandle> stream_;
  DrawOrder::Place place_;
  std::uint64_t thread_ = 0;
  std::optional<std::uint64_t> capture_;  // the last that had a draw
};

}  // namespace echobuf::cuda
