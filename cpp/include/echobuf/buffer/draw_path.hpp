// The draw path: any number of threads take batches, drawn at once or ahead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/buffer/epoch_accounting.hpp"
#include "echobuf/buffer/termination.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/draw_or_prepare.hpp"
#include "echobuf/draw/drawer.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/prefetcher.hpp"
#include "echobuf/options.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/clocks.hpp"
#include "echobuf/sync/draw_lock.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf {

template <class Ring>
class DrawPath {
 public:
  /// Throws std::bad_alloc, std::system_error. What has been handed out is noted in
  /// `accounting`.
  DrawPath(const BufferOptions& options, Ring& ring, std::unique_ptr<Drawer> drawer,
           EpochAccounting<Ring>& accounting, const Termination<Ring>& termination)
      : ring_(ring),
        accounting_(accounting),
        termination_(termination),
        drawer_(std::move(drawer)) {
    if (options.prefetch > 0 && drawer_->draws_blocks())
      prefetcher_ = std::make_unique<Prefetcher<Ahead>>(
          options.prefetch, [this](Ahead& ahead) { return make(ahead); });
  }

  bool prefetches() const { return prefetcher_ != nullptr; }

  /// The next batch; the memory that `batch` had is dropped.
  Status next(Batch& batch, const WaitLimit& wait_limit, Poll* poll) {
    return timed([&] {
      const Status status =
          prefetcher_ ? pop(batch, wait_limit, kFits)
                      : draw(wait_limit, [&] { return drawer_->draw(batch, poll); });
      if (status == Status::kOk) batch.block.hand_out();
      return status;
    });
  }

  /// Draws into the caller's leaves.
  Status next_into(Target& target, const WaitLimit& wait_limit, Poll* poll) {
    return timed([&] {
      if (prefetcher_) {
        Batch batch;
        const Status status = pop(batch, wait_limit, kFits);
        if (status != Status::kOk) return status;
        target.count = batch.count;
        drawer_->copy_block(batch.block, target);
        return status;
      }
      return draw(wait_limit, [&] { return drawer_->draw_into(target, poll); });
    });
  }

  /// The same where records differ in length.
  Status next_rows(RowsTarget& target, const WaitLimit& wait_limit, Poll* poll) {
    return timed([&] {
      if (prefetcher_) {
        Batch batch;
        const Status status = pop(batch, wait_limit, [&](const Ahead& ahead) {
          return drawer_->fits(ahead.batch, target);
        });
        if (status == Status::kOk) drawer_->copy_out(batch, target);
        return status;
      }
      return draw(wait_limit, [&] { return drawer_->draw_rows(target, poll); });
    });
  }

  /// Hands out the next batch to launches of graphs on the stream of `target`.
  Status before_replay(RowsTarget& target, const WaitLimit& wait_limit) {
    return timed([&] {
      return draw(wait_limit, [&] { return drawer_->before_replay(target); });
    });
  }

  /// Returns whether next() would return without waiting for upstream. Nothing, if a
  /// batch is just being assembled ahead, or records are on their way: ask again.
  std::optional<bool> look() {
    if (termination_.early()) return true;
    if (prefetcher_ && prefetcher_->ready()) return true;
    if (prefetcher_ && paused_.load(std::memory_order_acquire)) return false;
    const DrawLock::Guard lock(draw_lock_, std::try_to_lock);
    if (lock && !assembled_) {
      const bool behind = ring_.behind();  // before the look: what comes then is seen
      if (drawer_->ready()) return true;
      if (behind) return std::nullopt;
      return false;
    }
    if (prefetcher_) return std::nullopt;
    return false;
  }

  /// The same, waiting for what is being assembled, or uploaded.
  bool ready() {
    std::optional<bool> answer;
    const Deadline wait_limit = Clock::now() + kUploadWait;
    while (!(answer = look()) && (prefetcher_ || Clock::now() < wait_limit))
      std::this_thread::sleep_for(kMoment);
    return answer.value_or(false);
  }

  /// Returns whether no batch follows those that were handed out, once upstream has
  /// ended and no call is in flight. Lengths of records may shape the last batches so
  /// that only the drawer knows.
  bool finished() {
    const Deadline wait_limit = Clock::now() + kUploadWait;
    do {
      if (prefetcher_) {
        const Status next = prefetcher_->peek();
        if (next != Status::kTimeout) return next == Status::kFinished;
      } else {
        const DrawLock::Guard lock(draw_lock_, std::try_to_lock);
        if (!lock) return false;
        const bool behind = ring_.behind();  // before the look, as in look()
        if (drawer_->finished()) return true;
        if (!behind) return false;
      }
      std::this_thread::sleep_for(kMoment);
    } while (Clock::now() < wait_limit);
    return false;
  }

  const DownstreamClock& clock() const { return clock_; }

  // ---- between epochs

  /// True if this thread is inside a draw: to pause it would last for ever.
  bool is_mine() const { return draw_lock_.is_mine(); }

  /// While this lives it has the lock, and nothing is assembled ahead; what others
  /// drew since it wanted the lock is given up.
  class Pause {
   public:
    explicit Pause(DrawPath& path) : Pause(&announce(path)) {
      path.drawer_->settle();  // if it throws, the pause has been and ends
    }
    ~Pause() {
      // The lock goes last: what the next one draws counts.
      draw_path_.paused_.store(false, std::memory_order_release);
      draw_path_.resumed_.notify();
      if (draw_path_.prefetcher_) draw_path_.prefetcher_->restart();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    explicit Pause(DrawPath* path) : draw_path_(*path), draw_lock_(path->draw_lock_) {}
    static DrawPath& announce(DrawPath& path) {
      path.paused_.store(true, std::memory_order_release);
      path.ring_.filled().notify();  // a thread that waits there comes back
      if (path.prefetcher_) path.prefetcher_->pause();
      return path;
    }

    DrawPath& draw_path_;
    const DrawLock::Guard draw_lock_;
  };

  /// In a pause: draws from the epoch `next` from now on, going on from `from` or from
  /// its start, and then moves the rest of the buffer there.
  template <class Begin>
  void go_over(const Epoch& next, const Sweep* from, Begin&& begin) {
    std::lock_guard lock(handing_out_);  // what was popped before has been counted
    if (from)
      drawer_->restore(next, *from);
    else
      drawer_->restart(next);
    std::forward<Begin>(begin)(drawer_->sweep());
    clock_.begin();
  }

  // ---- the end

  void wake_all() {
    draw_lock_.event().notify();
    resumed_.notify();
    if (prefetcher_) prefetcher_->filled().notify();
  }

  /// Ends the thread that assembles ahead.
  void stop() {
    if (prefetcher_) prefetcher_->stop();
  }

  /// In a forked child: the thread is not there to be joined, and the fork may have
  /// come in the middle of a draw.
  void abandon() {
    static_cast<void>(prefetcher_.release());
    static_cast<void>(drawer_.release());
  }

 private:
  static constexpr auto kSlice = std::chrono::milliseconds(50);
  static constexpr auto kMoment = std::chrono::microseconds(20);

  /// A batch assembled ahead, and where it leaves the schedule.
  struct Ahead {
    Batch batch;
    std::optional<Sweep> after;
  };

  /// A caller's whole call, on the clock.
  template <class Call>
  Status timed(Call&& call) {
    DownstreamClock::Call on_clock(clock_);
    const Status status = std::forward<Call>(call)();
    if (status == Status::kOk) on_clock.handed_out();
    return status;
  }

  /// Draws, and waits for upstream until it has.
  template <class Draw>
  Status draw(const WaitLimit& wait_limit, const Draw& draw_once) {
    return wait_for(wait_limit, &clock_.waits(), [&] { return attempt(draw_once); });
  }

  /// One attempt at drawing, if no other thread is drawing.
  template <class Draw>
  Attempt attempt(const Draw& draw_once) {
    if (const auto end = termination_.early()) return {*end};
    DrawLock::Guard lock(draw_lock_, std::try_to_lock);
    if (!lock) {
      if (draw_lock_.is_mine()) return {Status::kReentrant};
      return {Status::kTimeout, &draw_lock_.event()};
    }
    using Outcome = DrawOutcome;
    std::uint32_t key = 0;
    const Outcome outcome = draw_or_prepare(ring_, *drawer_, draw_once, key);
    // The poll has noted why: that must be said first.
    if (outcome == Outcome::kInterrupted) return {Status::kInterrupted};
    if (outcome == Outcome::kCaptured) return {Status::kOk};  // whatever the epoch
    if (outcome == Outcome::kTwice) return {Status::kTwice};
    if (outcome == Outcome::kCapturing) return {Status::kCapturing};
    if (outcome == Outcome::kResize) return {Status::kResize};
    if (paused_.load(std::memory_order_acquire)) return while_paused();
    // A failure and a shut-down close the ring, which looks like the end of upstream.
    if (const auto end = termination_.early()) return {*end};
    switch (outcome) {
      case Outcome::kBatch:
        break;
      case Outcome::kWait:
        return {Status::kTimeout, &ring_.filled(), key};
      case Outcome::kFinished:
        if (!prefetcher_) accounting_.note_end(drawer_->expired());
        return {Status::kFinished};
      case Outcome::kShort:
        return {Status::kShort};
      default:
        break;
    }
    if (!prefetcher_) accounting_.hand_out(drawer_->sweep());
    return {Status::kOk};
  }

  /// A reset closes the ring, which looks like the end of upstream: what was drawn
  /// belongs to an epoch that is given up. A caller goes on waiting, in the next epoch;
  /// the thread that assembles ahead comes back at once, since the reset waits for it.
  Attempt while_paused() {
    if (prefetcher_) return {Status::kInterrupted};
    return {Status::kTimeout, &resumed_};
  }

  static constexpr auto kFits = [](const Ahead&) { return true; };

  /// `fits`: see Prefetcher.
  template <class Fits>
  Status pop(Batch& batch, const WaitLimit& wait_limit, const Fits& fits) {
    Ahead ahead;
    const auto pop_once = [&]() -> Attempt {
      if (const auto end = termination_.early()) return {*end};
      std::lock_guard lock(handing_out_);
      const Status popped = prefetcher_->pop(ahead, fits);
      if (popped == Status::kOk) accounting_.hand_out(*ahead.after);
      if (popped == Status::kFinished) accounting_.note_end(0);  // nothing expires then
      return {popped, &prefetcher_->filled()};
    };
    Status status = wait_for(wait_limit, &clock_.waits(), pop_once);
    // Time is for upstream: what is there already is not refused because the thread
    // has not reached it yet.
    while (status == Status::kTimeout && wait_limit.end != kAtOnce && ready())
      status = wait_for(Clock::now() + kSlice, &clock_.waits(), pop_once);
    if (status == Status::kOk) batch = std::move(ahead.batch);
    return status;
  }

  Status make(Ahead& ahead) {
    Batch& batch = ahead.batch;
    const Status status = wait_for(Clock::now() + kSlice, nullptr, [&] {
      return attempt([&] {
        assembled_ = false;
        const auto outcome = drawer_->draw(batch, nullptr);
        if (outcome != DrawOutcome::kBatch) return outcome;
        ahead.after = drawer_->sweep();
        assembled_ = true;
        return outcome;
      });
    });
    return status == Status::kInterrupted ? Status::kTimeout : status;
  }

  Ring& ring_;
  EpochAccounting<Ring>& accounting_;
  const Termination<Ring>& termination_;

  DrawLock draw_lock_;  // guards the drawer
  std::unique_ptr<Drawer> drawer_;
  bool assembled_ = false;  // ahead, and perhaps not yet to be popped; with the lock
  std::mutex handing_out_;  // batches made ahead leave in order
  std::atomic<bool> paused_{false};  // between two epochs
  EventCount resumed_;
  DownstreamClock clock_;

  std::unique_ptr<Prefetcher<Ahead>> prefetcher_;  // last: its thread uses the rest
};

}  // namespace echobuf
