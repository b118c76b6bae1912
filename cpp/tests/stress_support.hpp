// Threads that put into a buffer and draw from it at once, records of one size or not.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support.hpp"

namespace echobuf::test {

/// Runs one epoch of n examples; returns how often each was served. `produce(first,
/// end)` puts those numbers; `consume(count)` draws until the end and counts them.
template <class AnyBuffer, class Produce, class Consume>
Ids serve_with_threads(AnyBuffer& buffer, std::uint64_t n, int producers, int consumers,
                       const Produce& produce, const Consume& consume) {
  std::vector<Ids> counts(static_cast<std::size_t>(consumers), Ids(n, 0));
  Threads drawing, putting;
  for (Ids& count : counts) drawing.start([&] { consume(count); });
  const auto all = static_cast<std::uint64_t>(producers);
  for (std::uint64_t p = 0; p < all; ++p)
    putting.start([&, p] { produce(p * n / all, (p + 1) * n / all); });
  putting.join();
  buffer.close();
  drawing.join();
  for (std::size_t c = 1; c < counts.size(); ++c)
    for (std::uint64_t id = 0; id < n; ++id) counts[0][id] += counts[c][id];
  return counts[0];
}

/// Each example was served as often as the factor says; 0: automatic, at most 8 times.
inline void expect_exact_use(const Ids& count, Ratio factor) {
  const std::uint64_t least = std::max<std::uint64_t>(1, factor.num / factor.den);
  const std::uint64_t most = factor.num == 0 ? 8 : factor.ceil();
  for (const std::uint64_t times : count) {
    ASSERT_GE(times, least);
    ASSERT_LE(times, most);
  }
}

/// Epochs that are reset while everybody is at work.
template <class AnyBuffer>
struct ResetLoad {
  /// The numbers of epoch k begin at k * kApart.
  static constexpr std::uint64_t kApart = 1000;

  std::uint64_t epochs, examples, last_examples;
  std::uint64_t batches;  // fewer than an epoch has in any case
  Ratio factor;           // 0: automatic
  std::uint64_t seed;
  /// Draws a batch's numbers.
  std::function<Status(Ids&, Deadline)> take = {};
  /// Puts the numbers first ... end - 1 into a term.
  std::function<Status(std::uint64_t term, std::uint64_t first, std::uint64_t end)>
      put = {};
  std::function<void(std::uint64_t number)> enter = {}, leave = {};

  /// Expects that a batch never mixes epochs, and that the epoch that is left to end is
  /// served exactly.
  void run(AnyBuffer& buffer) const {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> served{0};
    std::mutex mutex;
    Ids last(last_examples, 0);
    Threads consumers;
    for (int c = 0; c < 2; ++c)
      consumers.start([&] {
        Ids ids;
        while (!stop) {
          // An epoch that ends is followed by another one, until `stop`.
          if (take(ids, Clock::now() + std::chrono::milliseconds(20)) != Status::kOk) {
            std::this_thread::yield();
            continue;
          }
          ++served;
          const std::lock_guard lock(mutex);
          for (const std::uint64_t id : ids) {
            ASSERT_EQ(id / kApart, ids[0] / kApart) << "a batch of two epochs";
            if (id / kApart == epochs) ++last.at(id % kApart);
          }
        }
      });
    std::mt19937_64 random(seed);
    for (std::uint64_t number = 1; number <= epochs; ++number) {
      enter(number);
      const std::uint64_t until = served + random() % batches;
      const std::uint64_t n = number == epochs ? last_examples : examples;
      const std::uint64_t term = buffer.term();
      Threads producers;
      for (std::uint64_t p = 0; p < 2; ++p)
        producers.start([&, p] {
          const std::uint64_t base = number * kApart;
          const Status status = put(term, base + p * n / 2, base + (p + 1) * n / 2);
          EXPECT_NE(status, Status::kTimeout);
          if (number == epochs) {
            EXPECT_EQ(status, Status::kOk);
          }
        });
      if (number == epochs) continue;  // this one is left to end
      const Deadline latest = far_off();
      while (served < until && Clock::now() < latest) std::this_thread::yield();
      EXPECT_GE(served, until) << "nothing is served any more";
      buffer.close();
      producers.join();
      leave(number);
    }
    buffer.close();
    const Deadline latest = far_off();
    while (!buffer.checkpoint().epoch_done && Clock::now() < latest)
      std::this_thread::yield();
    stop = true;
    consumers.join();
    expect_exact_use(last, factor);
  }
};

}  // namespace echobuf::test
