#include "echobuf/sync/event_count.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::EventCount;
using echobuf::test::far_off;
using echobuf::test::Threads;

/// Waits for a condition; false if a wait ran to its deadline, even if by then the
/// condition held: somebody forgot to wake us.
template <class Condition>
bool await(EventCount& event, Condition condition) {
  while (!condition()) {
    const std::uint32_t key = event.prepare();
    if (condition()) break;
    const Deadline deadline = far_off();
    event.wait(key, deadline);
    if (Clock::now() >= deadline) return false;
  }
  return true;
}

TEST(EventCount, LosesNoWakeUpBetweenTwoThreads) {
  constexpr int kRounds = 20000;
  EventCount ping, pong;
  std::atomic<int> turn{0};  // even: ours; odd: theirs
  Threads threads;
  threads.start([&] {
    for (int i = 0; i < kRounds; ++i) {
      if (!await(ping,
                 [&] { return turn.load(std::memory_order_relaxed) == 2 * i + 1; }))
        return;
      turn.store(2 * i + 2, std::memory_order_relaxed);
      pong.notify();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    turn.store(2 * i + 1, std::memory_order_relaxed);
    ping.notify();
    ASSERT_TRUE(
        await(pong, [&] { return turn.load(std::memory_order_relaxed) == 2 * i + 2; }))
        << "round " << i;
  }
}

TEST(EventCount, PublishesWhatWasWrittenBefore) {
  // The data are plain: ThreadSanitizer checks the order.
  constexpr int kRounds = 2000;
  EventCount event;
  std::array<int, kRounds> data{};
  std::atomic<int> ready{0};
  Threads threads;
  threads.start([&] {
    for (int i = 0; i < kRounds; ++i) {
      data[static_cast<std::size_t>(i)] = i;
      ready.store(i + 1, std::memory_order_release);
      event.notify();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(
        await(event, [&] { return ready.load(std::memory_order_acquire) > i; }));
    ASSERT_EQ(data[static_cast<std::size_t>(i)], i);
  }
}

TEST(EventCount, WakesEveryWaiter) {
  constexpr int kRounds = 500, kWaiters = 3;
  EventCount event, arrived;
  std::atomic<int> round{0}, there{0};
  std::atomic<bool> lost{false};
  Threads threads;
  for (int w = 0; w < kWaiters; ++w)
    threads.start([&] {
      for (int i = 1; i <= kRounds; ++i) {
        if (!await(event, [&] { return round.load() >= i; })) lost = true;
        there.fetch_add(1);
        arrived.notify();
      }
    });
  for (int i = 1; i <= kRounds; ++i) {
    round.store(i);
    event.notify();
    ASSERT_TRUE(await(arrived, [&] { return there.load() == i * kWaiters; }));
  }
  threads.join();
  EXPECT_FALSE(lost);
}

TEST(EventCount, WakesAWaiterWhoCameBetweenAnnounceAndWake) {
  EventCount event;
  ASSERT_FALSE(event.announce()) << "nobody waits";
  event.prepare();
  ASSERT_TRUE(event.announce());
  const std::uint32_t key = event.prepare();  // a second one, before the wake-up
  event.wake();
  const Deadline deadline = far_off();
  event.wait(key, deadline);
  EXPECT_LT(Clock::now(), deadline);
  EXPECT_FALSE(event.announce()) << "the mark is gone";
}

TEST(EventCount, DoesNotSleepOverANotificationSincePrepare) {
  EventCount event;
  const std::uint32_t key = event.prepare();
  event.notify();
  const Deadline deadline = far_off();
  event.wait(key, deadline);
  EXPECT_LT(Clock::now(), deadline);
}

TEST(EventCount, ComesBackAtTheDeadline) {
  EventCount event;
  event.wait(event.prepare(), Clock::now());
  const Deadline soon = Clock::now() + std::chrono::milliseconds(2);
  while (Clock::now() < soon) event.wait(event.prepare(), soon);
}

}  // namespace
