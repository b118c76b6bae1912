// The threads that draw batches, and look at every byte of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stage.hpp"

namespace echobuf::soak {

class Consumers {
 public:
  /// How calls may end, now.
  static constexpr unsigned kMayFinish = 1, kMayFail = 2, kMayBeDown = 4;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  explicit Consumers(Stage& stage)
      : stage_(stage), held_(static_cast<std::size_t>(stage.plan.consumers)) {}

  /// Those at work go on; else new ones begin.
  void start() {
    batches_.store(0);
    if (!threads_.empty()) return;
    left_.store(stage_.plan.consumers);
    for (int c = 0; c < stage_.plan.consumers; ++c)
      threads_.emplace_back([this, c] { consume(c); });
  }
  void finish() { Stage::finish(threads_); }

  bool idle() const { return threads_.empty(); }
  bool at_work() const { return left_.load() > 0; }
  /// Returns whether one has seen the end of the epoch.
  bool at_the_end() const { return !at_work() || saw_end_.load(); }
  std::uint64_t batches() const { return batches_.load(); }
  void may_end(unsigned how) { ending_.store(how); }

  /// From here to arrive() the epoch is given up for one opened ahead: a consumer that
  /// comes to its end goes on in the next.
  void leave() {
    saw_end_.store(false);
    era_.fetch_add(1);
  }
  void arrive() { era_.fetch_add(1); }
  void stop_after(std::uint64_t batches) { stop_after_.store(batches); }

  /// Checks that the batches that are still held are as they were.
  void verify_held() {
    for (auto& batches : held_)
      for (const Kept& kept : batches) verify(kept.batch, *kept.layout);
  }

 private:
  /// A batch that is dropped late, perhaps after its buffer.
  struct Kept {
    Batch batch;
    std::shared_ptr<const BatchLayout> layout;
  };

  void consume(int c) {
    Random random(stage_.plan.seed * 1000 + 500 + static_cast<std::uint64_t>(c));
    auto& held = held_[static_cast<std::size_t>(c)];
    const auto layout = std::make_shared<BatchLayout>(stage_.buffer->layout());
    std::uint64_t epoch = 0;
    while (batches_.load() < stop_after_.load()) {
      Batch batch;
      const std::uint64_t era = era_.load();
      const Status status =
          random.one_in(4) ? next_into(random, batch, *layout) : next(random, batch);
      if (status == Status::kTimeout || status == Status::kInterrupted) continue;
      if (status == Status::kFinished && leaving_since(era)) {
        saw_end_.store(true);
        Stage::pause();
        continue;
      }
      if (status != Status::kOk) {
        check_end(status);
        break;
      }
      count(batch, *layout, epoch);
      held.push_back({std::move(batch), layout});
      if (held.size() > stage_.plan.held) {
        verify(held.front().batch, *held.front().layout);
        held.pop_front();
      }
      batches_.fetch_add(1);
      stage_.watchdog.alive();
      if (random.one_in(16)) look_around();
    }
    left_.fetch_sub(1);
  }

  /// Returns whether an epoch was being left at any time of a call that began in `era`.
  bool leaving_since(std::uint64_t era) const {
    return era % 2 == 1 || era_.load() != era;
  }

  Status next(Random& random, Batch& batch) {
    MoodyPoll poll(random);
    return stage_.buffer->next(batch, stage_.deadline(random), &poll);
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
    const Status status =
        stage_.buffer->next_into(target, stage_.deadline(random), &poll);
    if (status != Status::kOk) return status;
    batch.block = std::move(block);
    batch.count = target.count;
    return status;
  }

  void look_around() {
    const BufferStats stats = stage_.buffer->stats();
    const Checkpoint point = stage_.buffer->checkpoint();
    stage_.buffer->ready();
    if (stats.resident > ring_capacity(stage_.plan.options) ||
        point.epoch > stage_.epoch.load(std::memory_order_acquire))
      stage_.watchdog.fail("stats() or checkpoint() is out of range");
  }

  /// The numbers of a batch, all of whose bytes are checked.
  std::vector<std::uint64_t> verify(const Batch& batch, const BatchLayout& layout) {
    const Examples& examples = stage_.examples;
    const bool in_batches = stage_.plan.options.lengths.in_batches();
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t r = 0; r < (in_batches ? 1 : batch.count); ++r) {
      const std::byte* data = batch.block.data();
      const std::uint64_t number =
          examples.read_number(data + layout.offset(0) + r * examples.room(0));
      for (std::size_t f = 0; f < examples.fields(); ++f)
        if (!examples.whole(data + layout.offset(f) + r * examples.room(f), f, number))
          stage_.watchdog.fail("a torn example");
      if (in_batches && batch.count != examples.rows(number))
        stage_.watchdog.fail("a wrong length");
      numbers.push_back(number);
    }
    return numbers;
  }

  void count(const Batch& batch, const BatchLayout& layout, std::uint64_t& epoch) {
    const auto numbers = verify(batch, layout);
    if (numbers.empty()) stage_.watchdog.fail("an empty batch");
    const std::uint64_t current = stage_.epoch.load(std::memory_order_acquire);
    std::uint64_t of_batch = current;
    if (stage_.examples.tells_epoch()) {
      of_batch = Examples::epoch_of(numbers[0]);
      if (of_batch < epoch || of_batch > current)
        stage_.watchdog.fail("a batch of another epoch");
      epoch = of_batch;
    }
    for (const std::uint64_t number : numbers) {
      if (stage_.examples.tells_epoch() && Examples::epoch_of(number) != of_batch)
        stage_.watchdog.fail("a batch of two epochs");
      if (!stage_.tallies[of_batch]->count(Examples::index_of(number)))
        stage_.watchdog.fail("an example that was never put");
    }
  }

  void check_end(Status status) {
    const unsigned may = ending_.load();
    if ((status == Status::kFinished && (may & kMayFinish)) ||
        (status == Status::kFailed && (may & kMayFail)) ||
        (status == Status::kClosed && (may & kMayBeDown)))
      return;
    stage_.watchdog.fail("next() ended with " +
                         std::to_string(static_cast<int>(status)));
  }

  Stage& stage_;
  std::vector<std::deque<Kept>> held_;  // one a consumer
  Threads threads_;
  std::atomic<std::uint64_t> batches_{0};
  std::atomic<std::uint64_t> stop_after_{kNever};
  std::atomic<int> left_{0};
  std::atomic<unsigned> ending_{0};
  std::atomic<bool> saw_end_{false};   // of the epoch that is being left
  std::atomic<std::uint64_t> era_{0};  // odd: an epoch is being left
};

}  // namespace echobuf::soak
