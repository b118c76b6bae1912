#include "echobuf/sync/draw_lock.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::DrawLock;
using echobuf::test::far_off;
using echobuf::test::rounds;
using echobuf::test::Threads;

TEST(DrawLock, IsOneThreadsAtATime) {
  constexpr int kThreads = 4, kRounds = 5000;
  DrawLock lock;
  int count = 0;  // plain: ThreadSanitizer checks the exclusion
  Threads threads;
  for (int t = 0; t < kThreads; ++t)
    threads.start([&] {
      for (int i = 0; i < kRounds; ++i) {
        const DrawLock::Guard guard(lock);
        ++count;
      }
    });
  threads.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

TEST(DrawLock, KnowsWhoseItIs) {
  DrawLock lock;
  EXPECT_FALSE(lock.is_mine());
  {
    const DrawLock::Guard mine(lock, std::try_to_lock);
    EXPECT_TRUE(lock.is_mine());
    Threads other;
    other.start([&] { EXPECT_FALSE(lock.is_mine()); });
  }
  EXPECT_FALSE(lock.is_mine());
}

TEST(DrawLock, IsRefusedWhileTaken) {
  DrawLock lock;
  {
    const DrawLock::Guard mine(lock, std::try_to_lock);
    EXPECT_TRUE(mine);
    const DrawLock::Guard theirs(lock, std::try_to_lock);
    EXPECT_FALSE(theirs);
  }
  const DrawLock::Guard again(lock, std::try_to_lock);
  EXPECT_TRUE(again) << "one that was refused gives nothing back";
}

TEST(DrawLock, WakesThoseWhoWaitWhenGivenBack) {
  constexpr int kRounds = rounds(5000);
  DrawLock lock;
  int count = 0;
  std::atomic<bool> lost{false};
  const auto work = [&] {
    for (int i = 0; i < kRounds;) {
      const std::uint32_t key = lock.event().prepare();
      const DrawLock::Guard guard(lock, std::try_to_lock);
      if (guard) {
        ++count;
        ++i;
        std::this_thread::yield();
        continue;
      }
      const Deadline deadline = far_off();
      lock.event().wait(key, deadline);
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
