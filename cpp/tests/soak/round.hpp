// One round of the soak: a buffer, its producers and consumers, and what happens to
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "examples.hpp"
#include "plan.hpp"
#include "tally.hpp"
#include "watchdog.hpp"

namespace echobuf::soak {

/// Says stop now and then.
class MoodyPoll final : public Poll {
 public:
  explicit MoodyPoll(Random& random) : random_(random) {}
  bool go_on() override { return !random_.one_in(8); }

 private:
  Random& random_;
};

class Round {
 public:
  Round(const Plan& plan, Watchdog& watchdog)
      : plan_(plan),
        examples_(plan_.options),
        watchdog_(watchdog),
        buffer_(std::make_unique<Buffer>(plan_.options)),
        held_(static_cast<std::size_t>(plan.consumers)) {
    for (std::uint64_t e = 0; e < plan_.epochs.size(); ++e)
      tallies_.push_back(
          std::make_unique<Tally>(examples_, e, plan_.epochs[e].examples));
  }

  /// Ends the process if anything is wrong. The number of draws.
  std::uint64_t run() {
    for (std::uint64_t e = 0; e < plan_.epochs.size(); ++e) {
      begin_epoch(e);
      run_epoch(plan_.epochs[e]);
    }
    finish(consumers_);
    buffer_.reset();
    std::uint64_t draws = 0;
    for (const auto& tally : tallies_) {
      check(tally->over(plan_.options));
      draws += tally->draws();
    }
    for (auto& batches : held_)
      for (const Kept& kept : batches) verify(kept.batch, *kept.layout);
    return draws;
  }

 private:
  using Threads = std::vector<std::thread>;

  /// A batch that is dropped late, perhaps after its buffer.
  struct Kept {
    Batch batch;
    std::shared_ptr<const BatchLayout> layout;
  };

  void begin_epoch(std::uint64_t epoch) {
    epoch_.store(epoch, std::memory_order_release);
    if (epoch > 0) {
      if (consumers_.empty()) ending_.store(0);
      buffer_->reset(epoch);  // under the hands of the consumers after kReset
      if (last_course_ == Course::kReset) finish(producers_);
    }
    next_.store(0);
  }

  void run_epoch(const EpochPlan& epoch) {
    last_course_ = epoch.course;
    start();
    switch (epoch.course) {
      case Course::kServed:
        return serve_to_the_end(epoch);
      case Course::kResumed:
        for (const std::uint64_t cut : epoch.cuts)
          if (!resume(cut)) return check(tally().faults(plan_.options));
        return serve_to_the_end(epoch);
      case Course::kReset:
        return wait_for_cut(epoch.cuts[0]);
      case Course::kFailed:
      case Course::kDown:
        break;
    }
    wait_for_cut(epoch.cuts[0]);
    if (epoch.course == Course::kFailed) {
      ending_.store(kMayFail);
      buffer_->fail();
    } else {
      ending_.store(kMayBeDown);
      buffer_->shut_down();
    }
    finish(producers_);
    finish(consumers_);
    check(tally().over(plan_.options));
  }

  void start() {
    batches_.store(0);
    term_ = buffer_->term();
    producers_left_.store(plan_.producers);
    for (int p = 0; p < plan_.producers; ++p)
      producers_.emplace_back([this, p] { produce(p); });
    if (!consumers_.empty()) return;  // they went on through a reset
    consumers_left_.store(plan_.consumers);
    for (int c = 0; c < plan_.consumers; ++c)
      consumers_.emplace_back([this, c] { consume(c); });
  }

  void serve_to_the_end(const EpochPlan& epoch) {
    finish(producers_);
    ending_.store(kMayFinish);
    buffer_->close();
    finish(consumers_);
    if (next_.load() < epoch.examples) watchdog_.fail("a producer gave up");
    check(tally().faults(plan_.options));
    if (buffer_->stats().served != tally().draws())
      watchdog_.fail("stats().served is not what was handed out");
    if (!buffer_->checkpoint().epoch_done) watchdog_.fail("the epoch is not done");
  }

  /// Cuts the epoch off after some batches; a new buffer goes on from there. False if
  /// the epoch was over before.
  bool resume(std::uint64_t cut) {
    stop_after_.store(cut);
    while (consumers_left_.load() > 0) {
      if (producers_left_.load() == 0) {
        ending_.store(kMayFinish);
        buffer_->close();  // else consumers might wait for what never comes
        finish(consumers_);
      }
      pause();
    }
    finish(consumers_);
    const Checkpoint point = buffer_->checkpoint();
    stop_after_.store(kNever);
    if (!point.epoch_done) buffer_->shut_down();
    finish(producers_);
    if (point.epoch_done) return false;
    ending_.store(0);
    buffer_ = std::make_unique<Buffer>(plan_.options);
    if (!buffer_->restore(point)) watchdog_.fail("restore() refused a new buffer");
    next_.store(oldest_record(point.sweep));
    start();
    return true;
  }

  void wait_for_cut(std::uint64_t cut) {
    while (batches_.load() < cut && producers_left_.load() > 0) pause();
  }

  void produce(int p) {
    Random random(plan_.seed * 1000 + static_cast<std::uint64_t>(p));
    const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
    while (produce_piece(random, epoch)) watchdog_.alive();
    producers_left_.fetch_sub(1);
  }

  bool produce_piece(Random& random, std::uint64_t epoch) {
    std::unique_lock<std::mutex> in_turn;
    if (plan_.in_order) in_turn = std::unique_lock(turn_);
    const std::uint64_t n = plan_.epochs[epoch].examples;
    const std::uint64_t most = plan_.options.ragged ? 1 : random.from_to(1, 40);
    const std::uint64_t first = next_.fetch_add(most);
    if (first >= n) {
      next_.store(n);
      return false;
    }
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = first; i < std::min(n, first + most); ++i)
      numbers.push_back(examples_.number(epoch, i));
    const Piece piece(examples_, numbers, random.below(3));
    return put(random, piece, numbers);
  }

  bool put(Random& random, const Piece& piece,
           const std::vector<std::uint64_t>& numbers) {
    MoodyPoll poll(random);
    std::uint64_t done = 0;
    for (;;) {
      const Status status = buffer_->put(
          term_, piece.leaves(), numbers.size(), examples_.rows(numbers[0]), done,
          deadline(random), random.one_in(2) ? &poll : nullptr);
      if (status == Status::kOk) return true;
      if (status == Status::kClosed) return false;
      if (status != Status::kTimeout && status != Status::kInterrupted)
        watchdog_.fail("put() ended with " + std::to_string(static_cast<int>(status)));
    }
  }

  void consume(int c) {
    Random random(plan_.seed * 1000 + 500 + static_cast<std::uint64_t>(c));
    auto& held = held_[static_cast<std::size_t>(c)];
    const auto layout = std::make_shared<BatchLayout>(buffer_->layout());
    std::uint64_t epoch = 0;
    while (batches_.load() < stop_after_.load()) {
      Batch batch;
      const Status status =
          random.one_in(4) ? next_into(random, batch, *layout) : next(random, batch);
      if (status == Status::kTimeout || status == Status::kInterrupted) continue;
      if (status != Status::kOk) {
        check_end(status);
        break;
      }
      count(batch, *layout, epoch);
      held.push_back({std::move(batch), layout});
      if (held.size() > plan_.held) {
        verify(held.front().batch, *held.front().layout);
        held.pop_front();
      }
      batches_.fetch_add(1);
      watchdog_.alive();
      if (random.one_in(16)) look_around();
    }
    consumers_left_.fetch_sub(1);
  }

  Status next(Random& random, Batch& batch) {
    MoodyPoll poll(random);
    return buffer_->next(batch, deadline(random), &poll);
  }

  /// Draws into memory of our own, laid out as a batch is.
  Status next_into(Random& random, Batch& batch, const BatchLayout& layout) {
    MoodyPoll poll(random);
    const auto pool = std::make_shared<BatchPool>(layout.bytes(), 0);
    Block block = pool->take();
    std::vector<std::byte*> leaves;
    for (std::size_t f = 0; f < layout.leaves(); ++f)
      leaves.push_back(block.data() + layout.offset(f));
    Target target{leaves.data()};
    const Status status = buffer_->next_into(target, deadline(random), &poll);
    if (status != Status::kOk) return status;
    batch.block = std::move(block);
    batch.count = target.count;
    return status;
  }

  void look_around() {
    const BufferStats stats = buffer_->stats();
    const Checkpoint point = buffer_->checkpoint();
    buffer_->ready();
    if (stats.resident > ring_capacity(plan_.options) ||
        point.epoch > epoch_.load(std::memory_order_acquire))
      watchdog_.fail("stats() or checkpoint() is out of range");
  }

  /// The numbers of a batch, all of whose bytes are checked.
  std::vector<std::uint64_t> verify(const Batch& batch, const BatchLayout& layout) {
    const bool ragged = plan_.options.ragged;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t r = 0; r < (ragged ? 1 : batch.count); ++r) {
      const std::byte* data = batch.block.data();
      const std::uint64_t number =
          examples_.read_number(data + layout.offset(0) + r * examples_.room(0));
      for (std::size_t f = 0; f < examples_.fields(); ++f)
        if (!examples_.whole(data + layout.offset(f) + r * examples_.room(f), f,
                             number))
          watchdog_.fail("a torn example");
      if (ragged && batch.count != examples_.rows(number))
        watchdog_.fail("a wrong length");
      numbers.push_back(number);
    }
    return numbers;
  }

  void count(const Batch& batch, const BatchLayout& layout, std::uint64_t& epoch) {
    const auto numbers = verify(batch, layout);
    if (numbers.empty()) watchdog_.fail("an empty batch");
    const std::uint64_t current = epoch_.load(std::memory_order_acquire);
    std::uint64_t of_batch = current;
    if (examples_.tells_epoch()) {
      of_batch = Examples::epoch_of(numbers[0]);
      if (of_batch < epoch || of_batch > current)
        watchdog_.fail("a batch of another epoch");
      epoch = of_batch;
    }
    for (const std::uint64_t number : numbers) {
      if (examples_.tells_epoch() && Examples::epoch_of(number) != of_batch)
        watchdog_.fail("a batch of two epochs");
      if (!tallies_[of_batch]->count(Examples::index_of(number)))
        watchdog_.fail("an example that was never put");
    }
  }

  void check_end(Status status) {
    const unsigned may = ending_.load();
    if ((status == Status::kFinished && (may & kMayFinish)) ||
        (status == Status::kFailed && (may & kMayFail)) ||
        (status == Status::kClosed && (may & kMayBeDown)))
      return;
    watchdog_.fail("next() ended with " + std::to_string(static_cast<int>(status)));
  }

  void check(const std::string& fault) {
    if (!fault.empty()) watchdog_.fail(fault);
  }
  Tally& tally() { return *tallies_[epoch_.load()]; }

  Deadline deadline(Random& random) const {
    if (plan_.patient) return Deadline::max();
    switch (random.below(4)) {
      case 0:
        return Deadline::min();
      case 1:
        return Clock::now() + std::chrono::microseconds(random.below(100));
      case 2:
        return Clock::now() + std::chrono::milliseconds(2);
      default:
        return Deadline::max();
    }
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

  static void finish(Threads& threads) {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr unsigned kMayFinish = 1, kMayFail = 2, kMayBeDown = 4;

  const Plan plan_;
  const Examples examples_;
  Watchdog& watchdog_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<std::unique_ptr<Tally>> tallies_;  // one an epoch
  std::vector<std::deque<Kept>> held_;           // one a consumer
  Threads producers_, consumers_;
  std::mutex turn_;  // of producers that put in order
  std::uint64_t term_ = 0;
  Course last_course_ = Course::kServed;

  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<std::uint64_t> next_{0};  // the next example to be put
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> stop_after_{kNever};  // consumers
  std::atomic<int> producers_left_{0}, consumers_left_{0};
  std::atomic<unsigned> ending_{0};  // how calls of consumers may end now
};

}  // namespace echobuf::soak
