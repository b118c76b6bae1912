// The order of draws and uploads: what waits for which event.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "echobuf/cuda/handles.hpp"

namespace echobuf::cuda {

/// A draw's stream waits for the runs that it reads (`ready` events), and for the draw
/// before it; the copying stream waits for the last draw before it writes over slots
/// that were given back (`drawn`).
class DrawOrder {
 public:
  explicit DrawOrder(SharedContext context)
      : context_(std::move(context)), drawn_(make_event(context_)) {}
  DrawOrder(const DrawOrder&) = delete;
  DrawOrder& operator=(const DrawOrder&) = delete;

  /// Makes `stream` wait until the records below `end`, all sent, are in the window,
  /// and until the draw before has read what it draws.
  void order_draw(StreamHandle stream, std::uint64_t end) {
    const Driver& driver = context_->driver();
    {
      std::lock_guard lock(mutex_);
      // After an error, records pass without being copied to the window.
      if (error_) throw *error_;
      const Flight* last = nullptr;
      for (const Flight& flight : flights_) {
        if (flight.first >= end) break;
        if (flight.ready) last = &flight;
      }
      if (last) driver.stream_wait_event(stream, last->ready->get(), 0u);
    }
    // The handle of another stream may be that of one that is gone.
    if (!drawn_on_legacy_ || !is_legacy(stream))
      driver.stream_wait_event(stream, drawn_->get(), 0u);
  }

  /// A draw has been enqueued: what comes later and writes its slots waits for it.
  void note_draw(StreamHandle stream) {
    context_->driver().event_record(drawn_->get(), stream);
    drawn_on_legacy_ = is_legacy(stream);
  }

  /// Returns whether the last draw is still on its way. For any thread.
  bool is_drawing() const {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      return context_->driver().calls().event_query(drawn_->get()) != kSuccess;
    } catch (const Error&) {
      return true;  // unknown
    }
  }

  /// A draw could not be enqueued, or no event recorded behind it: waits until what is
  /// on its stream is done, since nothing else will, and gives up.
  void lose_draw(StreamHandle stream, const Error& why) {
    await(stream);
    lose(why);
  }

  /// Waits until what is on `stream` is done; if there is no such stream any more,
  /// until everything on the device is.
  void await(StreamHandle stream) const {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      const auto& calls = context_->driver().calls();
      if (calls.stream_synchronize(stream) != kSuccess) calls.context_synchronize();
    } catch (const Error&) {  // then nothing runs there
    }
  }

  /// Waits until the last draw is done.
  void await_draws() const {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      const auto& calls = context_->driver().calls();
      if (calls.event_synchronize(drawn_->get()) != kSuccess)
        calls.context_synchronize();
    } catch (const Error&) {  // then nothing runs there
    }
  }

  void await_all() const {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      context_->driver().calls().context_synchronize();
    } catch (const Error&) {
    }
  }

  /// The number of the capture that `stream` is in, if it is in one.
  std::optional<std::uint64_t> capture_of(StreamHandle stream) const {
    return context_->driver().capture_of(stream);
  }

  /// The driver has refused a call: what is ordered no longer is, so nothing goes on.
  void lose(const Error& why) {
    {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = why;
    }
    broken_();
  }

  /// Gives up if the device answers no more: another library of the process, which
  /// allocates batches, may be told first, and the uploader may have nothing to ask.
  void notice_loss() {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      std::size_t free = 0;
      std::size_t total = 0;
      context_->driver().memory_info(&free, &total);
    } catch (const Error& error) {
      lose(error);
    }
  }

  /// Why nothing works any more; to be asked after `broken` was called.
  std::string error() const {
    std::lock_guard lock(mutex_);
    return error_ ? error_->what() : "";
  }

  const DeviceContext& context() const { return *context_; }

 protected:
  ~DrawOrder() = default;

  /// A run on its way; without an event if it was skipped.
  struct Flight {
    std::uint64_t first;
    std::uint64_t end;
    std::unique_ptr<Event> ready;
  };

  static bool is_legacy(StreamHandle stream) {
    return stream == nullptr || stream == kLegacyStream;
  }

  const SharedContext context_;
  const std::unique_ptr<Event> drawn_;
  std::function<void()> broken_;

  mutable std::mutex mutex_;  // guards what draws look at
  std::deque<Flight> flights_;

 private:
  bool drawn_on_legacy_ = false;  // the last draw; of the thread that draws
  std::optional<Error> error_;    // what ended the buffer
};

}  // namespace echobuf::cuda
