// The thread that moves committed records from staging to the window on the device.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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

/// Copies runs on a separate stream. What producers have copied themselves, on streams
/// of theirs, it passes on to draws in its turn.
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
      bool done = calls.stream_synchronize(copying_->get()) == kSuccess;
      for (const Flight& put : puts_in_flight())
        done = calls.event_synchronize(put.ready->get()) == kSuccess && done;
      if (!done) calls.context_synchronize();
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

  // ---- producers of records on the device

  /// An event for what a producer enqueues.
  std::unique_ptr<Event> take_event() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto event = std::move(idle_.back());
        idle_.pop_back();
        return event;
      }
    }
    const DeviceContext::RelaxedScope scope(*context_);
    return make_event(context_);
  }

  /// Returns whether records up to `end` go into slots that draws may still read, if
  /// what was given back by then is `freed`.
  bool must_wait_for_draws(std::uint64_t end, std::uint64_t freed) const {
    const std::uint64_t drained = drained_.load(std::memory_order_acquire);
    return ring_.reuses(end, freed, drained);
  }
  void wait_for_draws(StreamHandle stream) const {
    context_->driver().stream_wait_event(stream, drawn_->get(), 0u);
  }

  /// Positions that are claimed will be committed when `ready` lies behind their copy,
  /// which comes behind the draws below `freed`.
  void note_put(std::uint64_t first, std::uint64_t end, std::unique_ptr<Event> ready,
                std::uint64_t freed) {
    std::lock_guard lock(mutex_);
    puts_.emplace(first, Flight{first, end, std::move(ready), freed, true});
    puts_on_way_.fetch_add(1, std::memory_order_relaxed);
  }
  /// A statistic.
  std::size_t puts_on_way() const {
    return puts_on_way_.load(std::memory_order_relaxed);
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
  using Pause = std::chrono::microseconds;
  static constexpr Pause kSlice = std::chrono::milliseconds(50);
  static constexpr Pause kLeastPause = Pause(20);
  static constexpr Pause kMostPause = std::chrono::milliseconds(1);

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
    // A producer's stream may come to its copy late: others are sent meanwhile, and it
    // is looked at after pauses.
    bool is_put = is_put_next();
    if (!is_put || has_paused_) land(false);
    has_paused_ = false;
    StagedRing::Run run = ring_.next_run(most_);
    if (run.count != 0) {
      if (auto put = take_put(run)) return pass_on(std::move(*put), run.skip);
      return send(run);
    }
    is_put = is_put_next();
    if (!is_put) pause_ = kLeastPause;
    if (!is_put && land(true)) return;
    EventCount& news = ring_.news();
    const std::uint32_t key = news.prepare();
    if (ring_.next_run(most_).count != 0 || &ring_.news() != &news || stopped()) return;
    news.wait(key, Clock::now() + (is_put ? pause_ : kSlice));
    has_paused_ = true;
    pause_ = std::min(pause_ * 2, kMostPause);
  }

  /// Returns whether what lands next was copied by a producer.
  bool is_put_next() const { return !flights_.empty() && flights_.front().is_put; }

  /// Returns what a producer has put at the beginning of a run, and else cuts the run
  /// where such begins.
  std::optional<Flight> take_put(StagedRing::Run& run) {
    std::lock_guard lock(mutex_);
    const auto put = puts_.begin();
    if (put == puts_.end()) return std::nullopt;
    if (put->first > run.first) {
      run.count = std::min(run.count, put->first - run.first);
      return std::nullopt;
    }
    Flight taken = std::move(put->second);
    puts_.erase(put);
    return taken;
  }

  /// Lets draws be enqueued behind a put. If `skip`, no draw will be, and nothing else
  /// orders what is written there next: it is done before that.
  void pass_on(Flight put, bool skip) {
    ring_.await_commit(put.end);
    if (skip) {
      context_->driver().event_synchronize(put.ready->get());
    }
    const std::uint64_t end = put.end;
    {
      std::lock_guard lock(mutex_);
      if (skip) idle_.push_back(std::move(put.ready));
      flights_.push_back(std::move(put));
    }
    ring_.sent(end);
  }

  void send(const StagedRing::Run& run) {
    Flight flight{run.first, run.first + run.count, nullptr};
    if (!run.skip) copy(run, flight);
    flight.freed = waited_for_;
    {
      std::lock_guard lock(mutex_);
      flights_.push_back(std::move(flight));
    }
    ring_.sent(run.first + run.count);
  }

  void copy(const StagedRing::Run& run, Flight& flight) {
    const Driver& driver = context_->driver();
    if (ring_.reuses(run.first + run.count, run.freed, waited_for_)) {
      // The event was recorded before the slots were given back.
      driver.stream_wait_event(copying_->get(), drawn_->get(), 0u);
      waited_for_ = run.freed;
    }
    while (copies_ == kFlights) land(true);
    ++copies_;
    flight.ready = take_event();
    staging_.upload(run.first, run.count, window_, copying_->get());
    driver.event_record(flight.ready->get(), copying_->get());
  }

  /// Gives back the staging of copies that are done; if `wait`, of one at least.
  /// Returns whether there was one.
  bool land(bool wait) {
    const auto& calls = context_->driver().calls();
    bool landed = false;
    while (!flights_.empty()) {
      Flight& flight = flights_.front();
      if (flight.ready) {
        const bool waits = wait && !landed;
        const Result result = waits ? calls.event_synchronize(flight.ready->get())
                                    : calls.event_query(flight.ready->get());
        if (result == kErrorNotReady) break;
        context_->driver().check(result, waits ? "cuEventSynchronize" : "cuEventQuery");
        drained_.store(std::max(flight.freed, drained_.load(std::memory_order_relaxed)),
                       std::memory_order_release);
      }
      const std::uint64_t end = flight.end;
      {
        std::lock_guard lock(mutex_);
        if (flight.is_put)
          puts_on_way_.fetch_sub(1, std::memory_order_relaxed);
        else if (flight.ready)
          --copies_;
        if (flight.ready) idle_.push_back(std::move(flight.ready));
        flights_.pop_front();
      }
      ring_.arrived(end);
      pause_ = kLeastPause;
      landed = true;
      if (wait) break;
    }
    return landed;
  }

  /// What is on its way on the streams of producers, once the thread has ended.
  std::vector<Flight> puts_in_flight() {
    std::vector<Flight> found;
    for (Flight& flight : flights_)
      if (flight.is_put && flight.ready) found.push_back(std::move(flight));
    for (auto& [first, put] : puts_) found.push_back(std::move(put));
    flights_.clear();
    puts_.clear();
    return found;
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

  std::map<std::uint64_t, Flight> puts_;  // not yet passed on; with the mutex
  std::atomic<std::size_t> puts_on_way_{0};
  std::atomic<std::uint64_t> drained_{0};  // draws below are done

  std::mutex joining_;                        // stop() may be called by several
  std::vector<std::unique_ptr<Event>> idle_;  // with the mutex
  // The thread's own:
  std::size_t copies_ = 0;     // on their way
  Pause pause_ = kLeastPause;  // between looks at a put on its way
  bool has_paused_ = false;
  std::uint64_t waited_for_ = 0;  // the copying stream has waited for draws of slots
                                  // given back up to here
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace echobuf::cuda
