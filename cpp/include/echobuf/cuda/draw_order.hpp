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
/// before it if that was on another stream; the copying stream, and those of producers,
/// wait for the last draw before they write over slots that were given back. These wait
/// for one event (`drawn`). Draws on one stream are in order without it. Behind those
/// on the default stream it is recorded when slots are given back, when another stream
/// comes, and after kMostOwed draws; behind others at once, since their stream may be
/// gone by then.
class DrawOrder {
 public:
  /// A call of the consumer on a stream: the device's context is the thread's while
  /// this lives, and draws are on that stream. Throws Error, and nothing is lost, where
  /// a capture forbids what must come before a draw on another stream.
  class Call {
   public:
    Call(DrawOrder& order, StreamHandle stream)
        : scope_(order.context()), capture_(order.begin(stream)) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// The number of the capture that the stream is in: then nothing may be drawn.
    const std::optional<std::uint64_t>& capture() const { return capture_; }

   private:
    const DeviceContext::Scope scope_;
    const std::optional<std::uint64_t> capture_;
  };

  /// What a stream is told apart by: the driver's number, or the default stream. The
  /// handle of another stream may be that of one that is gone. None: not known.
  using Place = std::optional<std::uint64_t>;

  explicit DrawOrder(SharedContext context)
      : context_(std::move(context)), drawn_(make_event(context_)) {}
  DrawOrder(const DrawOrder&) = delete;
  DrawOrder& operator=(const DrawOrder&) = delete;

  /// Has `enqueue` enqueue what reads the records below `end`, all sent, on `stream`:
  /// behind their uploads, and behind the draw before.
  template <class Enqueue>
  void ordered(StreamHandle stream, std::uint64_t end, Enqueue&& enqueue) try {
    order_draw(stream, end);
    std::forward<Enqueue>(enqueue)();
  } catch (const Error& error) {
    lose_draw(stream, error);
    throw;
  }

  /// A draw has been enqueued: what comes later and writes its slots waits for it.
  void note_draw(StreamHandle stream) {
    last_ = here_;
    if (here_ != kDefault || ++owed_ == kMostOwed) record(stream);
  }
  /// The same of launches that this call does not make: `place` is that of `stream`,
  /// from a call before.
  void note_launches(StreamHandle stream, const Place& place) {
    last_ = place;
    record(stream);
  }
  const Place& here() const { return here_; }
  Place place_of(StreamHandle stream) const {
    const bool is_default = stream == nullptr || stream == kLegacyStream;
    return is_default ? Place(kDefault) : context_->driver().id_of(stream);
  }

  /// Records the event behind all draws, if it is not. Throws as Call does.
  void settle() {
    if (owed_ == 0) return;
    try {
      const DeviceContext::Scope scope(*context_);
      capture_of(nullptr);  // throws where a record would end another stream's capture
      record(nullptr);
    } catch (const Error& error) {
      if (!is_of_capture(error)) lose_draw(nullptr, error);
      throw;
    }
  }

  /// Returns whether the last draw that has the event behind it is still on its way:
  /// kMostOwed follow at most. For any thread.
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
  void await_draws() {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      const auto& calls = context_->driver().calls();
      const bool recorded =
          owed_ == 0 || calls.event_record(drawn_->get(), nullptr) == kSuccess;
      if (!recorded || calls.event_synchronize(drawn_->get()) != kSuccess)
        calls.context_synchronize();
      owed_ = 0;
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

  /// True of errors by which a capture that goes on refuses a call.
  static bool is_of_capture(const Error& error) {
    return error.code() == kErrorStreamCaptureUnsupported ||
           error.code() == kErrorStreamCaptureInvalidated ||
           error.code() == kErrorStreamCaptureImplicit;
  }

 protected:
  ~DrawOrder() = default;

  /// A run on its way; without an event if it was skipped.
  struct Flight {
    std::uint64_t first;
    std::uint64_t end;
    std::unique_ptr<Event> ready;
    std::uint64_t freed = 0;  // it comes behind the draws of all records below
    bool is_put = false;      // on the stream of a producer
    bool is_ahead = false;    // of all draws to come, on whatever stream
  };

  const SharedContext context_;
  const std::unique_ptr<Event> drawn_;
  std::function<void()> broken_;

  mutable std::mutex mutex_;  // guards what draws look at
  std::deque<Flight> flights_;

 private:
  static constexpr std::uint64_t kDefault = ~std::uint64_t{0};  // no number of a stream
  static constexpr unsigned kMostOwed = 32;

  std::optional<std::uint64_t> begin(StreamHandle stream) {
    if (auto capture = capture_of(stream)) return capture;
    const Place place = place_of(stream);
    if (place != last_) settle();
    here_ = place;
    return std::nullopt;
  }

  /// Makes `stream` wait until the records below `end`, all sent, are in the window,
  /// and until the draw before has read what it draws.
  void order_draw(StreamHandle stream, std::uint64_t end) {
    const Driver& driver = context_->driver();
    {
      std::lock_guard lock(mutex_);
      // After an error, records pass without being copied to the window.
      if (error_) throw *error_;
      const Flight* last = nullptr;  // of the copying stream
      for (Flight& flight : flights_) {
        if (flight.first >= end) break;
        if (!flight.ready || flight.is_ahead) continue;
        if (!flight.is_put) {
          last = &flight;
          continue;
        }
        driver.stream_wait_event(stream, flight.ready->get(), 0u);
        flight.is_ahead = true;
      }
      if (last) driver.stream_wait_event(stream, last->ready->get(), 0u);
    }
    if (!here_ || here_ != last_) driver.stream_wait_event(stream, drawn_->get(), 0u);
  }

  void record(StreamHandle stream) {
    context_->driver().event_record(drawn_->get(), stream);
    owed_ = 0;
  }

  // Of the thread that draws:
  Place here_;                  // the stream of the call
  Place last_;                  // of the last draw
  unsigned owed_ = 0;           // draws on the default stream without an event behind
  std::optional<Error> error_;  // what ended the buffer
};

}  // namespace echobuf::cuda
