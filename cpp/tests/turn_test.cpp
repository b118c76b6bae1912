#include "echobuf/turn.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::Turn;
using echobuf::test::far_off;
using echobuf::test::Threads;

TEST(Turn, IsOneThreadsAtATime) {
  constexpr int kThreads = 4, kRounds = 5000;
  Turn turn;
  int count = 0;  // plain: ThreadSanitizer checks the exclusion
  Threads threads;
  for (int t = 0; t < kThreads; ++t)
    threads.start([&] {
      for (int i = 0; i < kRounds; ++i) {
        const Turn::Guard guard(turn);
        ++count;
      }
    });
  threads.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(Turn, KnowsWhoseItIs) {
  Turn turn;
  EXPECT_FALSE(turn.is_mine());
  {
    const Turn::Guard mine(turn, std::try_to_lock);
    EXPECT_TRUE(turn.is_mine());
    Threads other;
    other.start([&] { EXPECT_FALSE(turn.is_mine()); });
  }
  EXPECT_FALSE(turn.is_mine());
}

TEST(Turn, IsRefusedWhileTaken) {
  Turn turn;
  {
    const Turn::Guard mine(turn, std::try_to_lock);
    EXPECT_TRUE(mine);
    const Turn::Guard theirs(turn, std::try_to_lock);
    EXPECT_FALSE(theirs);
  }
  const Turn::Guard again(turn, std::try_to_lock);
  EXPECT_TRUE(again) << "one that was refused gives nothing back";
}

TEST(Turn, WakesThoseWhoWaitWhenGivenBack) {
  constexpr int kRounds = 5000;
  Turn turn;
  int count = 0;
  std::atomic<bool> lost{false};
  const auto work = [&] {
    for (int i = 0; i < kRounds;) {
      const std::uint32_t key = turn.event().prepare();
      const Turn::Guard guard(turn, std::try_to_lock);
      if (guard) {
        ++count;
        ++i;
        std::this_thread::yield();
        continue;
      }
      const Deadline deadline = far_off();
      turn.event().wait(key, deadline);
      if (Clock::now() >= deadline) lost = true;
    }
  };
  Threads threads;
  for (int t = 0; t < 3; ++t) threads.start(work);
  threads.join();
  EXPECT_FALSE(lost);
  EXPECT_EQ(count, 3 * kRounds);
}

}  // namespace
