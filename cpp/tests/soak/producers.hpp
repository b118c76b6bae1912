// The threads that put the examples of an epoch.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "stage.hpp"

namespace echobuf::soak {

class Producers {
 public:
  explicit Producers(Stage& stage) : stage_(stage) {}

  /// They put an epoch's examples from number `first` on, into the term that is open.
  void start(std::uint64_t epoch, std::uint64_t first) {
    epoch_ = epoch;
    term_ = stage_.buffer->term();
    next_.store(first);
    left_.store(stage_.plan.producers);
    for (int p = 0; p < stage_.plan.producers; ++p)
      threads_.emplace_back([this, p] { produce(p); });
  }
  void finish() { Stage::finish(threads_); }

  bool at_work() const { return left_.load() > 0; }
  bool have_put_all() const { return next_.load() >= examples(); }

 private:
  std::uint64_t examples() const { return stage_.plan.epochs[epoch_].examples; }

  void produce(int p) {
    Random random(stage_.plan.seed * 1000 + static_cast<std::uint64_t>(p));
    while (produce_piece(random)) stage_.watchdog.alive();
    left_.fetch_sub(1);
  }

  bool produce_piece(Random& random) {
    std::unique_lock<std::mutex> in_turn;
    if (stage_.plan.in_order) in_turn = std::unique_lock(turn_);
    const std::uint64_t n = examples();
    const std::uint64_t most =
        stage_.plan.options.lengths.in_batches() ? 1 : random.from_to(1, 40);
    const std::uint64_t first = next_.fetch_add(most);
    if (first >= n) {
      next_.store(n);
      return false;
    }
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = first; i < std::min(n, first + most); ++i)
      numbers.push_back(stage_.examples.number(epoch_, i));
    const Piece piece(stage_.examples, numbers, random.below(3));
    return put(random, piece, numbers);
  }

  bool put(Random& random, const Piece& piece,
           const std::vector<std::uint64_t>& numbers) {
    MoodyPoll poll(random);
    std::uint64_t done = 0;
    for (;;) {
      const Status status = stage_.buffer->put(
          term_, piece.leaves(), numbers.size(), stage_.examples.rows(numbers[0]), done,
          stage_.deadline(random), random.one_in(2) ? &poll : nullptr);
      if (status == Status::kOk) return true;
      if (status == Status::kClosed) return false;
      if (status != Status::kTimeout && status != Status::kInterrupted)
        stage_.watchdog.fail("put() ended with " +
                             std::to_string(static_cast<int>(status)));
    }
  }

  Stage& stage_;
  Threads threads_;
  std::mutex turn_;  // of those that put in order
  std::uint64_t epoch_ = 0;
  std::uint64_t term_ = 0;
  std::atomic<std::uint64_t> next_{0};  // the next example to be put
  std::atomic<int> left_{0};
};

}  // namespace echobuf::soak
