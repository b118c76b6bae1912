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
/// before it if that was on another stream; the copying stream waits for the last draw
/// before it writes over slots that were given back. Both wait for one event (`drawn`).
/// It is recorded when slots are given back, when another stream comes, and where
/// kMostOwed draws have none behind them; draws on one stream are in order without it.
class DrawOrder {
 public:
  /// A call of the consumer on a stream: the device's context is the thread's while
  /// this lives, and draws are on that stream. Throws Error, and nothing is lost, where
  /// a capture somewhere forbids what must come before a draw on another stream.
  class Call {
   public:
    Call(DrawOrder& order, StreamHandle stream)
        : scope_(order.context()), order_(order), capture_(order.begin(stream)) {}
    ~Call() { order_.in_call_ = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// The number of the capture that the stream is in: then nothing may be drawn.
    const std::optional<std::uint64_t>& capture() const { return capture_; }

   private:
    const DeviceContext::Scope scope_;
    DrawOrder& order_;
    const std::optional<std::uint64_t> capture_;
  };

  /// What a stream is told apart by: legacy, or the driver's number. The handle of
  /// another stream may be that of one that is gone. None: every stream is another one.
  using Place = std::optional<std::uint64_t>;

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
    if (!here_ || here_ != last_) driver.stream_wait_event(stream, drawn_->get(), 0u);
  }

  /// A draw has been enqueued: what comes later and writes its slots waits for it.
  void note_draw(StreamHandle stream) {
    last_ = here_;
    if (++owed_ >= (here_ ? most_owed() : 1)) record(stream);
  }
  /// The same of launches that this call does not make: `place` is that of `stream`,
  /// from a call before.
  void note_launches(StreamHandle stream, const Place& place) {
    last_ = place;
    record(stream);
  }
  const Place& here() const { return here_; }

  /// Records the event behind all draws, if it is not. In a call.
  void pay(StreamHandle stream) {
    if (owed_ > 0) record(stream);
  }

  /// The same between calls, where the stream of the last draw may be gone: its handle
  /// may not be used then, so that the host waits. Throws as Call does.
  void settle() {
    if (owed_ == 0) return;
    try {
      const DeviceContext::RelaxedScope scope(*context_);
      if (last_ == kLegacy) return record(nullptr);
      context_->driver().context_synchronize();
      owed_ = 0;
    } catch (const Error& error) {
      if (!is_of_capture(error)) lose(error);
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
      const bool there = in_call_ || last_ == kLegacy;  // the stream of the last draw
      if (owed_ > 0 && there &&
          calls.event_record(drawn_->get(), in_call_ ? stream_ : nullptr) == kSuccess)
        owed_ = 0;
      if (owed_ > 0 || calls.event_synchronize(drawn_->get()) != kSuccess)
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
  };

  /// Slots are about to be given back, in a call: the event is to be behind all draws.
  void record_before_release() {
    try {
      pay(stream_);
    } catch (const Error& error) {
      lose_draw(stream_, error);
      throw;
    }
  }

  const SharedContext context_;
  const std::unique_ptr<Event> drawn_;
  std::function<void()> broken_;

  mutable std::mutex mutex_;  // guards what draws look at
  std::deque<Flight> flights_;

 private:
  static constexpr std::uint64_t kLegacy = ~std::uint64_t{0};  // no number of a stream
  static constexpr unsigned kMostOwed = 32;

  std::optional<std::uint64_t> begin(StreamHandle stream) {
    if (auto capture = capture_of(stream)) return capture;
    const bool legacy = stream == nullptr || stream == kLegacyStream;
    const Place place = legacy ? Place(kLegacy) : context_->driver().id_of(stream);
    if (owed_ > 0 && place != last_) {
      settle();
      if (last_ != kLegacy) is_alternating_ = true;
    }
    here_ = place;
    stream_ = stream;
    in_call_ = true;
    return std::nullopt;
  }

  /// Where the host had to wait for a stream that had no event behind it, all have one
  /// from then on; the legacy stream is never gone.
  unsigned most_owed() const {
    return is_alternating_ && here_ != kLegacy ? 1 : kMostOwed;
  }

  void record(StreamHandle stream) {
    context_->driver().event_record(drawn_->get(), stream);
    owed_ = 0;
  }

  // Of the thread that draws:
  bool in_call_ = false;
  StreamHandle stream_ = nullptr;  // of the call
  Place here_;                     // the same
  Place last_;                     // of the last draw
  unsigned owed_ = 0;              // draws there that have no event behind them
  bool is_alternating_ = false;
  std::optional<Error> error_;  // what ended the buffer
};

}  // namespace echobuf::cuda
