// The buffer: many producers put fresh examples, and each is served as often as the
// factor says, in shuffled batches.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/attempt.hpp"
#include "echobuf/drawer.hpp"
#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"
#include "echobuf/prefetcher.hpp"
#include "echobuf/turn.hpp"

namespace echobuf {

/// A batch in memory of the buffer's; the memory is the caller's until it is dropped.
struct Batch {
  Block block;
  std::uint64_t count = 0;  // records; rows, if records are ragged
};

/// Memory of a buffer: slots, allocated once, and the batches that it holds itself.
struct BufferNeeds {
  std::uint64_t slots;
  std::uint64_t bytes_per_slot;
  std::uint64_t batches;
  std::uint64_t bytes_per_batch;
};

struct BufferStats {
  std::uint64_t fresh = 0;
  std::uint64_t served = 0;
  std::uint64_t passes = 0;
  std::uint64_t resident = 0;
  std::uint64_t bytes = 0;
  double put_wait_s = 0;
  double next_wait_s = 0;
};

/// Where the batches handed out so far have come to: enough to go on from there.
struct Checkpoint {
  std::uint64_t epoch;
  Sweep sweep;
  std::optional<std::uint64_t> total;  // length of upstream, once it has ended
  bool epoch_done;                     // nothing of this epoch is left to serve
};

/// All calls may come from any number of threads at once. Calls that wait take a
/// deadline and return kTimeout when it has passed; call again to go on.
class Buffer {
 public:
  /// Throws std::bad_alloc. Everything but batch memory is allocated here, once.
  explicit Buffer(const BufferOptions& options)
      : options_(options),
        ring_(ring_capacity(options)),
        store_(RecordLayout(options.fields, options.ragged), ring_.capacity()),
        layout_(store_.layout(), options.batch_size),
        pool_(std::make_shared<BatchPool>(layout_.bytes(), options.idle)),
        drawer_(options_, ring_, store_, layout_, pool_),
        handed_(drawer_.sweep()) {
    epoch_.number = options.epoch;
    if (options.prefetch > 0)
      prefetcher_.emplace(options.prefetch,
                          [this](Ahead& ahead) { return make(ahead); });
  }

  ~Buffer() { shut_down(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// What a buffer will take; the products can pass 2^64, so they are left apart.
  static BufferNeeds needs(const BufferOptions& options) {
    const RecordLayout record(options.fields, options.ragged);
    // "auto" has one more: a batch that a wait has cut in two.
    return {ring_capacity(options), HostStore::bytes(record, 1) + Ring::bytes(1),
            options.prefetch + (options.automatic ? 1u : 0u),
            BatchLayout(record, options.batch_size).bytes()};
  }

  const BufferOptions& options() const { return options_; }
  const BatchLayout& layout() const { return layout_; }
  const RecordLayout& record() const { return store_.layout(); }
  bool of_this_process() const { return generation_ == fork_generation(); }

  // ---- upstream

  /// A put goes on over several calls; it belongs to the term in which it began.
  std::uint64_t term() const { return ring_.term(); }

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: of
  /// each, if records are ragged.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, Deadline deadline, Poll* poll) {
    const std::uint64_t chunk =
        std::max<std::uint64_t>(1, kPutBytes / store_.layout().stride());
    if (n == 0 && ring_.claim(0, term).closed) return Status::kClosed;
    while (done < n) {
      const Ring::Claim claim = ring_.claim(std::min(chunk, n - done), term);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status = wait_for_room(term, deadline);
        if (status != Status::kOk) return status;
        continue;
      }
      store_.write(ring_.slot(claim.first), claim.count, leaves, done, rows);
      ring_.commit(claim.first, claim.count);
      done += claim.count;
      if (poll && done < n && !poll->go_on()) return Status::kInterrupted;
    }
    return Status::kOk;
  }

  void close() { ring_.close(); }

  /// Upstream failed: nothing more is served.
  void fail() {
    failed_.store(true, std::memory_order_release);
    ring_.close();
    wake_all();
  }

  // ---- downstream

  Status next(Batch& batch, Deadline deadline, Poll* poll = nullptr) {
    if (prefetcher_) return pop(batch, deadline);
    return wait_for(deadline, &next_wait_, [&] {
      return draw([&] { return drawer_.draw(batch.block, batch.count, poll); });
    });
  }

  /// Draws into the caller's leaves.
  Status next_into(Target& target, Deadline deadline, Poll* poll = nullptr) {
    if (prefetcher_) {
      Batch batch;
      const Status status = pop(batch, deadline);
      if (status != Status::kOk) return status;
      target.count = batch.count;
      drawer_.copy_out(batch.block, target);
      return status;
    }
    return wait_for(deadline, &next_wait_, [&] {
      return draw([&] { return drawer_.draw_into(target, poll); });
    });
  }

  bool prefetches() const { return prefetcher_.has_value(); }

  /// Whether next() would return, with a batch or an end, without waiting. Not while
  /// somebody else is drawing.
  bool ready() {
    if (early_end()) return true;
    if (prefetcher_) return prefetcher_->ready();
    const Turn::Guard turn(turn_, std::try_to_lock);
    return turn && drawer_.ready();
  }

  // ---- life

  /// Ends the epoch as it stands and begins another, in the same memory. kReentrant if
  /// called from the poll of a draw: the reset would wait for it.
  Status reset(std::uint64_t epoch) {
    if (turn_.is_mine()) return Status::kReentrant;
    std::lock_guard alone(restarting_);
    restart([&](Epoch& next) {
      next.number = epoch;
      drawer_.restart(next);
    });
    return Status::kOk;
  }

  /// Goes on from a checkpoint. False if anything was put or drawn in this epoch.
  bool restore(const Checkpoint& from) {
    if (turn_.is_mine()) return false;  // from the poll of a draw
    std::lock_guard alone(restarting_);
    {
      std::lock_guard lock(mutex_);
      if (ring_.tail() != epoch_.base || epoch_.origin != 0 || draws(handed_) != 0)
        return false;
    }
    restart([&](Epoch& next) {
      next.number = from.epoch;
      next.origin = oldest_record(from.sweep);
      next.required_end =
          std::visit([](const auto& s) { return s.resident_end(); }, from.sweep);
      next.total = from.total;
      drawer_.restore(next, from.sweep);
    });
    return true;
  }

  Checkpoint checkpoint() {
    std::lock_guard lock(mutex_);
    Checkpoint point{epoch_.number, handed_, epoch_.total, false};
    // Every claim is committed soon, and the end is where claims end. An upstream that
    // failed has not ended: it may come back with more.
    if (ring_.closed() && !has_failed()) {
      const std::uint64_t n = epoch_.record(ring_.tail());
      if (n >= epoch_.required_end && (!epoch_.total || *epoch_.total == n)) {
        point.total = n;
        const std::uint64_t left =
            std::visit([&](const auto& s) { return s.remaining(n); }, handed_);
        point.epoch_done =
            left == 0 || (options_.drop_last && left < options_.batch_size);
      }
    }
    return point;
  }

  static std::uint64_t oldest_record(const Sweep& sweep) {
    return std::visit([](const auto& s) { return s.oldest_record(); }, sweep);
  }

  BufferStats stats() {
    BufferStats stats;
    {
      std::lock_guard lock(mutex_);
      stats.fresh = epoch_.record(ring_.tail());
      stats.served = draws(handed_);
      stats.passes =
          std::visit([](const auto& s) { return s.passes_begun(); }, handed_);
    }
    const std::uint64_t tail = ring_.tail();
    stats.resident = tail - std::min(tail, ring_.released());
    stats.bytes = HostStore::bytes(store_.layout(), ring_.capacity()) +
                  Ring::bytes(ring_.capacity()) + pool_->held();
    stats.put_wait_s = seconds(put_wait_);
    stats.next_wait_s = seconds(next_wait_);
    return stats;
  }

  /// Wakes everybody; every call from now on ends with kClosed. Stops the thread.
  void shut_down() {
    down_.store(true, std::memory_order_release);
    ring_.close();
    wake_all();
    if (prefetcher_) prefetcher_->stop();
  }
  bool is_down() const { return down_.load(std::memory_order_acquire); }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  static constexpr std::size_t kPutBytes = std::size_t{4} << 20;
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  /// A batch assembled ahead, and where it leaves the schedule.
  struct Ahead {
    Batch batch;
    std::optional<Sweep> after;
  };

  static std::uint64_t draws(const Sweep& sweep) {
    return std::visit([](const auto& s) { return s.position().draws; }, sweep);
  }

  static double seconds(const std::atomic<std::int64_t>& ns) {
    return static_cast<double>(ns.load(std::memory_order_relaxed)) * 1e-9;
  }

  Status wait_for_room(std::uint64_t term, Deadline deadline) {
    const std::uint32_t key = ring_.room().prepare();
    const Ring::Claim look = ring_.claim(0, term);
    if (look.closed) return Status::kClosed;
    if (ring_.has_room()) return Status::kOk;
    if (Clock::now() >= deadline) return Status::kTimeout;
    const Stopwatch watch(put_wait_);
    ring_.room().wait(key, deadline);
    return Status::kOk;
  }

  void wake_all() {
    ring_.wake_all();
    turn_.event().notify();
    if (prefetcher_) prefetcher_->filled().notify();
  }

  /// What may end a call before any drawing.
  std::optional<Status> early_end() const {
    if (down_.load(std::memory_order_acquire)) return Status::kClosed;
    if (failed_.load(std::memory_order_acquire)) return Status::kFailed;
    return std::nullopt;
  }

  /// Wakes the other consumers, unless told that none can have been missed.
  class WakeOthers {
   public:
    explicit WakeOthers(EventCount& event) : event_(&event) {}
    ~WakeOthers() {
      if (event_) event_->notify();
    }
    WakeOthers(const WakeOthers&) = delete;
    WakeOthers& operator=(const WakeOthers&) = delete;
    void dismiss() { event_ = nullptr; }

   private:
    EventCount* event_;
  };

  /// Draws, or says what is waited for and looks again: with the turn all the while, so
  /// that what the ring holds as wanted is always what the last look found missing, and
  /// every sleeper needs it. Only a look that then finds it there leaves sleepers whom
  /// that commit did not wake, since it may have read what was wanted before.
  template <class Draw>
  Drawer::Outcome draw_or_prepare(Draw&& draw_once, std::uint32_t& key) {
    auto outcome = draw_once();
    if (outcome != Drawer::Outcome::kWait) return outcome;
    WakeOthers others(ring_.filled());
    for (std::uint64_t wanted = drawer_.wanted();;) {
      ring_.want(wanted);
      key = ring_.filled().prepare();
      outcome = draw_once();
      if (outcome != Drawer::Outcome::kWait) return outcome;
      const std::uint64_t now = drawer_.wanted();
      if (now == wanted) break;
      wanted = now;
    }
    others.dismiss();
    return outcome;
  }

  /// One attempt at drawing, if nobody else is at it.
  template <class Draw>
  Attempt draw(Draw&& draw_once) {
    if (const auto end = early_end()) return {*end};
    Turn::Guard turn(turn_, std::try_to_lock);
    if (!turn) {
      if (turn_.is_mine()) return {Status::kReentrant};
      return {Status::kTimeout, &turn_.event()};
    }
    using Outcome = Drawer::Outcome;
    std::uint32_t key = 0;
    const Outcome outcome = draw_or_prepare(draw_once, key);
    // The poll has noted why: that must be said first.
    if (outcome == Outcome::kInterrupted) return {Status::kInterrupted};
    if (restarts_.load(std::memory_order_acquire)) return after_restart();
    // fail() and shut_down() close the ring, which looks like the end of upstream.
    if (const auto end = early_end()) return {*end};
    switch (outcome) {
      case Outcome::kBatch:
        break;
      case Outcome::kWait:
        return {Status::kTimeout, &ring_.filled(), key};
      case Outcome::kFinished:
        return {Status::kFinished};
      case Outcome::kShort:
        return {Status::kShort};
      case Outcome::kInterrupted:
        break;
    }
    if (!prefetcher_) hand_out(drawer_.sweep());
    return {Status::kOk};
  }

  /// A reset closes the ring, which looks like the end of upstream: what was drawn
  /// belongs to an epoch that is given up. A caller goes on waiting, in the next epoch;
  /// the thread that assembles ahead comes back at once, since the reset waits for it.
  Attempt after_restart() {
    if (prefetcher_) return {Status::kInterrupted};
    return {Status::kTimeout, &turn_.event()};
  }

  void hand_out(const Sweep& after) {
    std::lock_guard lock(mutex_);
    handed_ = after;
  }

  Status pop(Batch& batch, Deadline deadline) {
    Ahead ahead;
    const Status status = wait_for(deadline, &next_wait_, [&]() -> Attempt {
      if (const auto end = early_end()) return {*end};
      std::lock_guard lock(handing_out_);
      const Status popped = prefetcher_->pop(ahead);
      if (popped == Status::kOk) hand_out(*ahead.after);
      return {popped, &prefetcher_->filled()};
    });
    if (status == Status::kOk) batch = std::move(ahead.batch);
    return status;
  }

  Status make(Ahead& ahead) {
    Batch& batch = ahead.batch;
    const Status status = wait_for(Clock::now() + kSlice, nullptr, [&] {
      return draw([&] {
        const auto outcome = drawer_.draw(batch.block, batch.count, nullptr);
        if (outcome == Drawer::Outcome::kBatch) ahead.after = drawer_.sweep();
        return outcome;
      });
    });
    return status == Status::kInterrupted ? Status::kTimeout : status;
  }

  template <class Begin>
  void restart(Begin&& begin) {
    // Release, and before the close: who sees the ring closed sees this too.
    restarts_.store(true, std::memory_order_release);
    ring_.close();
    if (prefetcher_) prefetcher_->pause();
    {
      const Turn::Guard turn(turn_);
      // Producers that had claimed before are copying; that ends by itself.
      while (ring_.committed() != ring_.tail())
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      // Batches popped before the pause have been counted when this lock is held.
      std::scoped_lock lock(handing_out_, mutex_);
      Epoch next;
      next.base = ring_.tail();
      begin(next);
      epoch_ = next;
      handed_ = drawer_.sweep();
      ring_.release(next.base);
      ring_.clear_held_back();
      failed_.store(false, std::memory_order_release);
      put_wait_.store(0, std::memory_order_relaxed);
      next_wait_.store(0, std::memory_order_relaxed);
      // Looked at after the exchange in reopen(): a close() that came before is undone
      // by it, but then what led to that close() is seen here.
      if (!is_down()) ring_.reopen();
      if (early_end()) ring_.close();
      restarts_.store(false, std::memory_order_release);
    }
    if (prefetcher_) prefetcher_->restart();
  }

  const BufferOptions options_;
  const std::uint32_t generation_ = fork_generation();
  Ring ring_;
  HostStore store_;
  const BatchLayout layout_;
  const std::shared_ptr<BatchPool> pool_;

  Turn turn_;  // guards the drawer
  Drawer drawer_;

  std::mutex restarting_;   // one reset at a time
  std::mutex handing_out_;  // batches made ahead leave in order
  std::mutex mutex_;        // guards what follows
  Epoch epoch_;
  Sweep handed_;  // the schedule after the last batch handed out

  std::atomic<bool> failed_{false};
  std::atomic<bool> down_{false};
  std::atomic<bool> restarts_{false};  // a reset is under way
  std::atomic<std::int64_t> put_wait_{0};
  std::atomic<std::int64_t> next_wait_{0};

  std::optional<Prefetcher<Ahead>> prefetcher_;  // last: its thread uses the rest
};

}  // namespace echobuf
