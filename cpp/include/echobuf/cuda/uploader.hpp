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

#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"

namespace echobuf::cuda {

/// Copies runs on a separate stream.
class Uploader : public DrawOrder {
 public:
  Uploader(SharedContext context, StagedRing& ring, const Staging& staging,
           const Staging::Window& window)
      : DrawOrder(std::move(context)),
        ring_(ring),
        staging_(staging),
        window_(window),
        most_(staging.most_of_run()),
        copying_(make_stream(context_)) {
    ring_.before_release([this] { settle(); });
    for (std::size_t i = 0; i < kFlights; ++i) idle_.push_back(make_event(context_));
  }

  /// Waits for the copies and draws that are on their way: then their memory may be
  /// freed. No thread begins a draw any more; one that stop() overtook is waited for.
  ~Uploader() {
    stop();
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      const auto& calls = context_->driver().calls();
      if (calls.stream_synchronize(copying_->get()) != kSuccess)
        calls.context_synchronize();
    } catch (const Error&) {  // the device is lost, and its memory is not in use
    }
    await_draws();
  }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Before the start: has something done on the copying stream, and waits for it.
  template <class Enqueue>
  void prepare(Enqueue&& enqueue) {
    const DeviceContext::RelaxedScope scope(*context_);
    std::forward<Enqueue>(enqueue)(copying_->get());
    context_->driver().stream_synchronize(copying_->get());
  }

  /// `broken` is called, from whatever thread, when the driver has refused a call.
  /// Throws std::system_error where no thread can be started.
  void start(const std::function<void()>& broken) {
    broken_ = broken;
    thread_ = std::thread([this] { run(); });
  }

  /// Ends the thread. May be called by several, and again.
  void stop() {
    stopped_.store(true, std::memory_order_release);
    ring_.wake_all();
    std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
    ring_.retire();
  }

 private:
  static constexpr std::size_t kFlights = 32;
  static constexpr auto kSlice = std::chrono::milliseconds(50);

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
    if (ring_.reuses(run, waited_for_)) {
      // The event was recorded before the slots were given back.
      driver.stream_wait_event(copying_->get(), drawn_->get(), 0u);
      waited_for_ = run.freed;
    }
    while (idle_.empty()) land(true);
    flight.ready = std::move(idle_.back());
    idle_.pop_back();
    staging_.upload(run.first, run.count, window_, copying_->get());
    driver.event_record(flight.ready->get(), copying_->get());
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

  StagedRing& ring_;
  const Staging& staging_;
  const Staging::Window window_;
  const std::uint64_t most_;  // records of a run
  const std::unique_ptr<Stream> copying_;

  std::mutex joining_;                        // stop() may be called by several
  std::vector<std::unique_ptr<Event>> idle_;  // the thread's own, like what follows
  std::uint64_t waited_for_ = 0;  // the copying stream has waited for draws of slots
                                  // given back up to here
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace echobuf::cuda
