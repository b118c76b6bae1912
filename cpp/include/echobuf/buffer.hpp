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
#include "echobuf/draw_or_prepare.hpp"
#include "echobuf/drawer.hpp"
#include "echobuf/event_count.hpp"
#include "echobuf/inlet.hpp"
#include "echobuf/ledger.hpp"
#include "echobuf/options.hpp"
#include "echobuf/prefetcher.hpp"
#include "echobuf/stats.hpp"
#include "echobuf/turn.hpp"

namespace echobuf {

/// A batch in memory of the buffer's; the memory is the caller's until it is dropped.
struct Batch {
  Block block;
  std::uint64_t count = 0;  // records; rows, if records are ragged
};

/// All calls may come from any number of threads at once. Calls that wait take a
/// deadline and return kTimeout when it has passed; call again to go on.
class Buffer {
 public:
  /// Throws std::bad_alloc, or std::invalid_argument for what cannot work. Everything
  /// but batch memory is allocated here, once.
  explicit Buffer(const BufferOptions& options)
      : options_(options.checked()),
        ring_(ring_capacity(options)),
        store_(RecordLayout(options.fields, options.ragged), ring_.capacity()),
        layout_(store_.layout(), options.batch_size),
        pool_(std::make_shared<BatchPool>(layout_.bytes(), options.idle)),
        inlet_(ring_, store_),
        drawer_(std::make_unique<Drawer>(options_, ring_, store_, layout_, pool_)),
        ledger_(options_, ring_, drawer_->sweep()) {
    if (options.prefetch > 0)
      prefetcher_ = std::make_unique<Prefetcher<Ahead>>(
          options.prefetch, [this](Ahead& ahead) { return make(ahead); });
  }

  /// Nobody may be inside a call. In a forked child the thread that assembles ahead is
  /// not there to be joined, locks may be held for ever, and the fork may have come in
  /// the middle of a draw: what threads change is left alone, and the pool with it.
  ~Buffer() {
    if (of_this_process()) {
      shut_down();
    } else {
      static_cast<void>(prefetcher_.release());
      static_cast<void>(drawer_.release());
    }
  }
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
  /// False in a forked child, which may do nothing with it but destroy it.
  bool of_this_process() const { return generation_ == fork_generation(); }

  // ---- upstream

  /// A put goes on over several calls; it belongs to the term in which it began.
  std::uint64_t term() const { return ring_.term(); }

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: of
  /// each, if records are ragged.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, Deadline deadline, Poll* poll) {
    return inlet_.put(term, leaves, n, rows, done, deadline, poll);
  }

  /// Puts one example; `leaves` has one for each field. `rows`: if records are ragged.
  Status put(const SourceLeaf* leaves, Deadline deadline = Deadline::max(),
             std::size_t rows = 0) {
    std::uint64_t done = 0;
    return put(term(), leaves, 1, rows, done, deadline, nullptr);
  }

  /// Says that upstream has ended; what is there is still served out.
  void close() { ring_.close(); }

  /// Upstream failed: nothing more is served.
  void fail() {
    // After close() the end is known, and passes may have been begun that rely on it.
    if (!ring_.closed()) cut_off_.store(true, std::memory_order_release);
    failed_.store(true, std::memory_order_release);
    ring_.close();
    wake_all();
  }

  // ---- downstream

  /// The next batch; the memory that `batch` had is dropped.
  Status next(Batch& batch, Deadline deadline = Deadline::max(), Poll* poll = nullptr) {
    if (prefetcher_) return pop(batch, deadline);
    return wait_for(deadline, &next_wait_, [&] {
      return draw([&] { return drawer_->draw(batch.block, batch.count, poll); });
    });
  }

  /// Draws into the caller's leaves.
  Status next_into(Target& target, Deadline deadline, Poll* poll = nullptr) {
    if (prefetcher_) {
      Batch batch;
      const Status status = pop(batch, deadline);
      if (status != Status::kOk) return status;
      target.count = batch.count;
      drawer_->copy_out(batch.block, target);
      return status;
    }
    return wait_for(deadline, &next_wait_, [&] {
      return draw([&] { return drawer_->draw_into(target, poll); });
    });
  }

  /// Where field `index` of a batch lies: `count` times its bytes, 64-byte aligned.
  template <class T>
  T* field(const Batch& batch, std::size_t index) const {
    return reinterpret_cast<T*>(batch.block.data() + layout_.offset(index));
  }

  bool prefetches() const { return prefetcher_ != nullptr; }

  /// Whether next() would return, with a batch or an end, without waiting. Not while
  /// somebody else is drawing.
  bool ready() {
    if (early_end()) return true;
    if (prefetcher_) return prefetcher_->ready();
    const Turn::Guard turn(turn_, std::try_to_lock);
    return turn && drawer_->ready();
  }

  // ---- life

  /// Ends the epoch as it stands and begins another, in the same memory. kReentrant if
  /// called from the poll of a draw: the reset would wait for it.
  Status reset(std::uint64_t epoch) {
    if (turn_.is_mine()) return Status::kReentrant;
    std::lock_guard alone(between_epochs_);
    restart([&](Epoch& next) {
      next.number = epoch;
      drawer_->restart(next);
    });
    return Status::kOk;
  }

  /// True once upstream has ended and all that it put has entered the window: what is
  /// freed from now on is room for the next epoch.
  bool draining() { return !failed_here() && ledger_.draining(); }

  /// Opens the next epoch for upstream while this one, whose upstream has ended, is
  /// served out. A failure from now on is the next epoch's. False if upstream has not
  /// ended or has failed, or if an epoch was opened ahead already.
  bool open_ahead(std::uint64_t epoch) {
    std::lock_guard alone(between_epochs_);
    if (!ring_.closed() || has_failed() || is_down()) return false;
    if (!ledger_.open_ahead(epoch)) return false;
    if (is_down()) ring_.close();  // see restart()
    return true;
  }

  /// Goes over to the epoch that was opened ahead; what is left of this one is given
  /// up. False if there is none.
  bool go_ahead() {
    if (turn_.is_mine()) return false;  // from the poll of a draw
    std::lock_guard alone(between_epochs_);
    const std::optional<Epoch> next = ledger_.ahead();
    if (!next) return false;
    const Pause pause(*this);
    await_writers(next->base);
    std::lock_guard lock(handing_out_);
    drawer_->restart(*next);
    begin(*next, [] {});
    return true;
  }

  /// Goes on from a checkpoint of a buffer with the same options. False if anything was
  /// put or drawn in this epoch.
  bool restore(const Checkpoint& from) {
    if (turn_.is_mine()) return false;  // from the poll of a draw
    std::lock_guard alone(between_epochs_);
    if (!ledger_.untouched()) return false;
    restart([&](Epoch& next) {
      next.number = from.epoch + (from.epoch_done ? 1 : 0);
      if (from.epoch_done) return drawer_->restart(next);
      next.origin = oldest_record(from.sweep);
      next.required_end = resident_end(from.sweep);
      next.total = from.total;
      drawer_->restore(next, from.sweep);
    });
    return true;
  }

  /// An upstream that failed has not ended, unless it had before: it may come back with
  /// more.
  Checkpoint checkpoint() {
    const bool cut_off = cut_off_.load(std::memory_order_acquire);
    return ledger_.checkpoint(cut_off && failed_here());
  }

  BufferStats stats() {
    BufferStats stats = ledger_.stats();
    const std::uint64_t tail = ring_.tail();
    stats.resident = tail - std::min(tail, ring_.released());
    stats.bytes = HostStore::bytes(store_.layout(), ring_.capacity()) +
                  Ring::bytes(ring_.capacity()) + pool_->held();
    stats.put_wait_s = seconds(inlet_.waited());
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
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  /// A batch assembled ahead, and where it leaves the schedule.
  struct Ahead {
    Batch batch;
    std::optional<Sweep> after;
  };

  static double seconds(const std::atomic<std::int64_t>& ns) {
    return static_cast<double>(ns.load(std::memory_order_relaxed)) * 1e-9;
  }

  void wake_all() {
    ring_.wake_all();
    turn_.event().notify();
    resumed_.notify();
    if (prefetcher_) prefetcher_->filled().notify();
  }

  /// What may end a call before any drawing.
  std::optional<Status> early_end() const {
    if (down_.load(std::memory_order_acquire)) return Status::kClosed;
    if (failed_here()) return Status::kFailed;
    return std::nullopt;
  }

  /// Not if it is the epoch opened ahead that failed; that was opened before. Looked at
  /// twice: a reset forgets such a failure, and then that anything was opened ahead.
  bool failed_here() const {
    return has_failed() && !ring_.opened_ahead() && has_failed();
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
    const Outcome outcome = draw_or_prepare(ring_, *drawer_, draw_once, key);
    // The poll has noted why: that must be said first.
    if (outcome == Outcome::kInterrupted) return {Status::kInterrupted};
    if (paused_.load(std::memory_order_acquire)) return while_paused();
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
    if (!prefetcher_) ledger_.hand_out(drawer_->sweep());
    return {Status::kOk};
  }

  /// A reset closes the ring, which looks like the end of upstream: what was drawn
  /// belongs to an epoch that is given up. A caller goes on waiting, in the next epoch;
  /// the thread that assembles ahead comes back at once, since the reset waits for it.
  Attempt while_paused() {
    if (prefetcher_) return {Status::kInterrupted};
    return {Status::kTimeout, &resumed_};
  }

  Status pop(Batch& batch, Deadline deadline) {
    Ahead ahead;
    const Status status = wait_for(deadline, &next_wait_, [&]() -> Attempt {
      if (const auto end = early_end()) return {*end};
      std::lock_guard lock(handing_out_);
      const Status popped = prefetcher_->pop(ahead);
      if (popped == Status::kOk) ledger_.hand_out(*ahead.after);
      return {popped, &prefetcher_->filled()};
    });
    if (status == Status::kOk) batch = std::move(ahead.batch);
    return status;
  }

  Status make(Ahead& ahead) {
    Batch& batch = ahead.batch;
    const Status status = wait_for(Clock::now() + kSlice, nullptr, [&] {
      return draw([&] {
        const auto outcome = drawer_->draw(batch.block, batch.count, nullptr);
        if (outcome == Drawer::Outcome::kBatch) ahead.after = drawer_->sweep();
        return outcome;
      });
    });
    return status == Status::kInterrupted ? Status::kTimeout : status;
  }

  /// While this lives it has the turn, and nothing is assembled ahead; what others
  /// drew since it wanted the turn is given up.
  class Pause {
   public:
    explicit Pause(Buffer& buffer) : buffer_(announce(buffer)), turn_(buffer.turn_) {}
    ~Pause() {
      // The turn goes last: what the next one draws counts.
      buffer_.paused_.store(false, std::memory_order_release);
      buffer_.resumed_.notify();
      if (buffer_.prefetcher_) buffer_.prefetcher_->restart();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    static Buffer& announce(Buffer& buffer) {
      buffer.paused_.store(true, std::memory_order_release);
      buffer.ring_.filled().notify();  // a thread that waits there comes back
      if (buffer.prefetcher_) buffer.prefetcher_->pause();
      return buffer;
    }

    Buffer& buffer_;
    const Turn::Guard turn_;
  };

  /// Producers that claimed below `end` are copying; that ends by itself.
  void await_writers(std::uint64_t end) {
    while (ring_.committed() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  /// The drawer is in the epoch `next`: so is everything else from now on. With
  /// `handing_out_`, so that batches popped before the pause have been counted.
  template <class Open>
  void begin(const Epoch& next, Open&& open) {
    ledger_.begin(next, drawer_->sweep(), std::forward<Open>(open));
    inlet_.waited().store(0, std::memory_order_relaxed);
    next_wait_.store(0, std::memory_order_relaxed);
  }

  template <class Prepare>
  void restart(Prepare&& prepare) {
    const Pause pause(*this);
    ring_.close();
    await_writers(ring_.tail());
    std::lock_guard lock(handing_out_);
    Epoch next;
    next.base = ring_.tail();
    prepare(next);
    begin(next, [&] {
      failed_.store(false, std::memory_order_release);
      cut_off_.store(false, std::memory_order_release);
      // Looked at after the exchange in reopen(): a close() that came before is undone
      // by it, but then what led to that close() is seen here.
      if (!is_down()) ring_.reopen();
      if (is_down() || has_failed()) ring_.close();
    });
  }

  const BufferOptions options_;
  const std::uint32_t generation_ = fork_generation();
  Ring ring_;
  HostStore store_;
  const BatchLayout layout_;
  const std::shared_ptr<BatchPool> pool_;

  Inlet inlet_;
  Turn turn_;  // guards the drawer
  std::unique_ptr<Drawer> drawer_;
  Ledger ledger_;

  std::mutex between_epochs_;  // one change of epoch at a time
  std::mutex handing_out_;     // batches made ahead leave in order

  std::atomic<bool> failed_{false};
  std::atomic<bool> cut_off_{false};  // failed before it was closed
  std::atomic<bool> down_{false};
  std::atomic<bool> paused_{false};  // between two epochs
  EventCount resumed_;
  std::atomic<std::int64_t> next_wait_{0};

  std::unique_ptr<Prefetcher<Ahead>> prefetcher_;  // last: its thread uses the rest
};

}  // namespace echobuf
