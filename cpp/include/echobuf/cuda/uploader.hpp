// The thread that moves committed records from staging to the window on the device.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"

namespace echobuf::cuda {

/// Copies runs on a separate stream. A draw's stream waits for the runs that it reads
/// (`ready` events); the copying stream waits for the last draw before it writes over
/// slots that were given back (`drawn`).
class Uploader {
 public:
  Uploader(SharedContext context, StagedRing& ring, const Staging& staging,
           Address window)
      : context_(std::move(context)),
        ring_(ring),
        staging_(staging),
        window_(window),
        most_(std::max<std::uint64_t>(1, kRunBytes / staging.layout().stride())),
        stream_(make_stream(context_)),
        drawn_(make_event(context_)) {
    for (std::size_t i = 0; i < kFlights; ++i) idle_.push_back(make_event(context_));
  }

  /// Waits for the copies and draws that are on their way: then their memory may be
  /// freed. No thread begins a draw any more; one that stop() overtook is waited for.
  ~Uploader() {
    stop();
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      const auto& calls = context_->driver().calls();
      const bool copied = calls.stream_synchronize(stream_->get()) == kSuccess;
      const bool drawn = calls.event_synchronize(drawn_->get()) == kSuccess;
      if (!copied || !drawn) calls.context_synchronize();
    } catch (const Error&) {  // the device is lost, and its memory is not in use
    }
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Before the start: has something done on the copying stream, and waits for it.
  template <class Enqueue>
  void prepare(Enqueue&& enqueue) {
    const DeviceContext::RelaxedScope scope(*context_);
    std::forward<Enqueue>(enqueue)(stream_->get());
    context_->driver().stream_synchronize(stream_->get());
  }

  /// `broken` is called, from whatever thread, when the driver has refused a call.
  /// Throws std::system_error where no thread can be started.
  void start(std::function<void()> broken) {
    broken_ = std::move(broken);
    thread_ = std::thread([this] { run(); });
  }

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

  /// Ends the thread. May be called by several, and again.
  void stop() {
    stopped_.store(true, std::memory_order_release);
    ring_.wake_all();
    std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
    ring_.retire();
  }

  const DeviceContext& context() const { return *context_; }

 private:
  static constexpr std::uint64_t kRunBytes = std::uint64_t{4} << 20;
  static constexpr std::size_t kFlights = 32;
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  /// A run on its way; without an event if it was skipped.
  struct Flight {
    std::uint64_t first;
    std::uint64_t end;
    std::unique_ptr<Event> ready;
  };

  void run() {
    try {
      const DeviceContext::RelaxedScope scope(*context_);
      while (!stopped()) step();
    } catch (const Error& error) {
      lose(error);
      let_pass();
    } catch (const std::bad_alloc&) {
      lose(Error(kErrorOutOfMemory, "no host memory for the upload thread"));
      let_pass();
    }
  }

  static bool is_legacy(StreamHandle stream) {
    return stream == nullptr || stream == kLegacyStream;
  }

  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  void step() {
    land(false);
    const StagedRing::Run run = ring_.next_run(most_);
    if (run.count != 0) return send(run);
    if (land(true)) return;
    EventCount& news = ring_.news();
    const std::uint32_t key = news.prepare();
    if (ring_.next_run(most_).count == 0 && &ring_.news() == &news && !stopped())
      news.wait(key, Clock::now() + kSlice);
  }

  void send(const StagedRing::Run& run) {
    Flight flight{run.first, run.first + run.count, nullptr};
    if (!run.skip) copy(run, flight);
    {
      std::lock_guard lock(mutex_);
      flights_.push_back(std::move(flight));
    }
    ring_.sent(run.first + run.count);
  }

  void copy(const StagedRing::Run& run, Flight& flight) {
    const Driver& driver = context_->driver();
    const std::uint64_t end = run.first + run.count;
    if (end > waited_for_ + ring_.capacity()) {
      // The event was recorded before the slots were given back.
      driver.stream_wait_event(stream_->get(), drawn_->get(), 0u);
      waited_for_ = run.freed;
    }
    while (idle_.empty()) land(true);
    flight.ready = std::move(idle_.back());
    idle_.pop_back();
    const std::size_t stride = staging_.layout().stride();
    driver.copy_to_device(window_ + run.first % ring_.capacity() * stride,
                          staging_.at(run.first), run.count * stride, stream_->get());
    driver.event_record(flight.ready->get(), stream_->get());
  }

  /// Gives back the staging of copies that are done; if `wait`, of one at least. False
  /// if there is none on its way.
  bool land(bool wait) {
    const auto& calls = context_->driver().calls();
    while (!flights_.empty()) {
      Flight& flight = flights_.front();
      if (flight.ready) {
        const Result result = wait ? calls.event_synchronize(flight.ready->get())
                                   : calls.event_query(flight.ready->get());
        if (result == kErrorNotReady) return true;
        context_->driver().check(result, wait ? "cuEventSynchronize" : "cuEventQuery");
      }
      const std::uint64_t end = flight.end;
      {
        std::lock_guard lock(mutex_);
        if (flight.ready) idle_.push_back(std::move(flight.ready));
        flights_.pop_front();
      }
      ring_.arrived(end);
      if (wait) return true;
    }
    return false;
  }

  /// Lets records pass without copies, so that no producer waits for ever, until a
  /// consumer finds the error and stops the uploader.
  void let_pass() {
    while (!stopped()) {
      const StagedRing::Run run = ring_.next_run(most_);
      if (run.count != 0) {
        ring_.sent(run.first + run.count);
        ring_.arrived(run.first + run.count);
        continue;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const SharedContext context_;
  StagedRing& ring_;
  const Staging& staging_;
  const Address window_;
  const std::uint64_t most_;  // records of a run
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<Event> drawn_;
  bool drawn_on_legacy_ = false;  // the last draw; of the thread that draws

  std::mutex joining_;        // stop() may be called by several
  mutable std::mutex mutex_;  // guards what draws look at
  std::deque<Flight> flights_;
  std::optional<Error> error_;  // what ended the buffer

  std::vector<std::unique_ptr<Event>> idle_;  // the thread's own, like what follows
  std::uint64_t waited_for_ = 0;  // the copying stream has waited for draws of slots
                                  // given back up to here
  std::atomic<bool> stopped_{false};
  std::function<void()> broken_;
  std::thread thread_;
};

}  // namespace echobuf::cuda
