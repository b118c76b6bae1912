#include "echobuf/draw/batch_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::BatchPool;
using echobuf::Block;
using echobuf::fork_generation;
using echobuf::test::Threads;

constexpr std::size_t kBytes = 1000;

TEST(BatchPool, GivesTheSameMemoryAgain) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 2);
  std::set<const std::byte*> seen;
  for (int i = 0; i < 100; ++i) {
    const Block block = pool->take();
    ASSERT_TRUE(block);
    std::memset(block.data(), i, kBytes);
    seen.insert(block.data());
  }
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_GE(pool->held(), kBytes);
  EXPECT_LT(pool->held(), 2 * kBytes);
}

TEST(BatchPool, NeverGivesOneBlockTwice) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 3);
  std::vector<Block> blocks;
  std::set<const std::byte*> seen;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(pool->take());
    EXPECT_TRUE(seen.insert(blocks.back().data()).second);
  }
}

TEST(BatchPool, KeepsNoMoreIdleThanItWasTold) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 3);
  const std::size_t one = [&] {
    const Block block = pool->take();
    return pool->held();
  }();
  {
    std::vector<Block> blocks;
    blocks.reserve(10);
    for (int i = 0; i < 10; ++i) blocks.push_back(pool->take());
    EXPECT_EQ(pool->held(), 10 * one);
  }
  EXPECT_EQ(pool->held(), 3 * one);
}

TEST(BatchPool, DoesNotCountWhatIsHandedOut) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 1);
  std::vector<Block> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool->take());
  const std::size_t one = pool->held() / 3;
  blocks[0].hand_out();
  blocks[0].hand_out();
  EXPECT_EQ(pool->held(), 2 * one);
  Block moved = std::move(blocks[0]);
  EXPECT_EQ(pool->held(), 2 * one);
  moved = Block();  // kept, so it is the pool's again
  EXPECT_EQ(pool->held(), 3 * one);
  blocks[1].hand_out();
  blocks.clear();  // there is one already: both are given to the system
  EXPECT_EQ(pool->held(), one);
}

TEST(BatchPool, KeepsNothingIdleOnceItIsClosed) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 3);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool->take());
  const std::size_t one = pool->held() / 4;
  blocks.resize(2);
  EXPECT_EQ(pool->held(), 4 * one);
  pool->close();
  EXPECT_EQ(pool->held(), 2 * one);
  pool->close();
  blocks.clear();  // also those that come back later
  EXPECT_EQ(pool->held(), 0);
}

TEST(BatchPool, IsClosedWhileBlocksComeBack) {
  for (int round = 0; round < 200; ++round) {
    const auto pool = std::make_shared<BatchPool>(kBytes, 8);
    std::vector<Block> first, second;
    for (int i = 0; i < 4; ++i) {
      first.push_back(pool->take());
      second.push_back(pool->take());
    }
    Threads threads;
    threads.start([&] { first.clear(); });
    threads.start([&] { second.clear(); });
    pool->close();
    threads.join();
    EXPECT_EQ(pool->held(), 0);
  }
}

TEST(Block, OutlivesTheOwnerOfItsPool) {
  auto pool = std::make_shared<BatchPool>(kBytes, 2);
  const std::weak_ptr<BatchPool> watch = pool;
  Block block = pool->take();
  pool.reset();
  std::memset(block.data(), 1, kBytes);
  EXPECT_FALSE(watch.expired());
  block = Block();
  EXPECT_TRUE(watch.expired()) << "the last block takes the pool with it";
}

TEST(Block, IsMovedNotCopied) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 2);
  Block first = pool->take();
  std::byte* const data = first.data();
  Block second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(second.data(), data);
  first = std::move(second);
  EXPECT_EQ(first.data(), data);
  EXPECT_NE(pool->take().data(), data);
}

TEST(BatchPool, TakesBlocksBackFromAnyThread) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 2);
  std::mutex mutex;
  std::vector<Block> exchange;
  Threads threads;
  for (int t = 0; t < 3; ++t)
    threads.start([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Block block = pool->take();
        // Plain writes: ThreadSanitizer checks that the last owner's come before.
        std::memset(block.data(), t, kBytes);
        for (std::size_t at = 0; at < kBytes; at += 99)
          ASSERT_EQ(block.data()[at], static_cast<std::byte>(t));
        const std::lock_guard lock(mutex);
        exchange.push_back(std::move(block));  // dropped by whoever comes next
        if (exchange.size() > 3) exchange.clear();
      }
    });
  threads.join();
  exchange.clear();
  EXPECT_LE(pool->held(), 2 * 1024u);
}

int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Fork, IsCountedInTheChildAlone) {
  const std::uint32_t before = fork_generation();
  const pid_t child = fork();
  if (child == 0) _exit(fork_generation() == before + 1 ? 0 : 1);
  EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(fork_generation(), before);
}

TEST(Fork, AChildDropsBlocksWithoutThePoolsLock) {
  const auto pool = std::make_shared<BatchPool>(kBytes, 2);
  std::atomic<bool> stop{false};
  Threads threads;
  threads.start([&] {  // so that the lock is often held at the moment of the fork
    while (!stop) const Block block = pool->take();
  });
  for (int i = 0; i < 30; ++i) {
    Block block = pool->take();
    const std::size_t held = pool->held();
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a child that hangs is killed, and seen
      if (pool->of_this_process()) _exit(1);
      block = Block();
      _exit(0);
    }
    EXPECT_EQ(status_of(child), 0);
    EXPECT_TRUE(pool->of_this_process());
    EXPECT_GE(held, kBytes);
  }
  stop = true;
}

}  // namespace
