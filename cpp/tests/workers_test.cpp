#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "workers_support.hpp"

namespace echobuf::workers {
namespace {

using test::counted;
using test::Indices;
using test::serve_out;
using test::Trainer;
using test::work;
using test::write;

Indices order_with(std::uint64_t workers, double chance_of_death) {
  Trainer trainer(workers);
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < workers; ++number)
    threads.emplace_back(
        [&, number] { work(trainer, number, chance_of_death, write); });
  std::thread giver([&] {
    EXPECT_EQ(trainer.submit(counted(500)), Status::kOk);
    trainer.buffer->close();
  });
  Indices served = serve_out(*trainer.buffer);
  giver.join();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.pool.close();
  for (std::thread& thread : threads) thread.join();
  return served;
}

TEST(Workers, OrderIsThatOfTheIndicesWhateverTheirNumberAndTheirDeaths) {
  const Indices alone = order_with(1, 0);
  EXPECT_EQ(alone.size(), 500);
  EXPECT_EQ(order_with(3, 0), alone);
  EXPECT_EQ(order_with(3, 0.2), alone);
}

TEST(Workers, AWorkerThatDiesLeavesItsItemsToTheNext) {
  Trainer trainer(1);
  ASSERT_EQ(trainer.submit({7, 8}), Status::kOk);
  std::int64_t index = 0;
  ASSERT_EQ(trainer.hire(0)->take(index, Deadline::max()), Status::kOk);
  EXPECT_EQ(index, 7);
  const std::unique_ptr<Worker> next = trainer.hire(0);
  for (const std::int64_t expected : {7, 8}) {
    ASSERT_EQ(next->take(index, Deadline::max()), Status::kOk);
    EXPECT_EQ(index, expected);
    write(*next, index);
    next->done();
  }
  EXPECT_EQ(next->take(index, kAtOnce), Status::kTimeout);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
}

TEST(Workers, RevokedItemsAreSkippedAndLaterOnesMade) {
  Trainer trainer(1);
  ASSERT_EQ(trainer.submit({0, 1, 2}), Status::kOk);
  const std::unique_ptr<Worker> worker = trainer.hire(0);
  std::int64_t index = -1;
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  EXPECT_EQ(worker->wait_revoked(kAtOnce), Status::kTimeout);
  EXPECT_TRUE(trainer.pool.is_wanted(worker->item()));
  trainer.revoke();
  EXPECT_FALSE(trainer.pool.is_wanted(worker->item()));
  EXPECT_EQ(worker->wait_revoked(Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.submit({3}), Status::kClosed);
  worker->done();
  EXPECT_EQ(worker->take(index, kAtOnce), Status::kTimeout);
  trainer.begin_next();
  ASSERT_EQ(trainer.submit({3}), Status::kOk);
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  EXPECT_EQ(index, 3);
  worker->done();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
}

TEST(Workers, RevokedItemsOfADeadWorkerAreReaped) {
  Trainer trainer(2, 1);
  ASSERT_EQ(trainer.submit({0, 1}), Status::kOk);
  std::int64_t index = 0;
  for (std::uint64_t number = 0; number < 2; ++number)
    ASSERT_EQ(trainer.hire(number)->take(index, Deadline::max()), Status::kOk);
  trainer.pool.reap(0);  // nothing was revoked: nothing is lost
  EXPECT_EQ(trainer.pool.making(0), 0);
  EXPECT_EQ(trainer.wait_committed(kAtOnce), Status::kTimeout);
  trainer.revoke();
  EXPECT_EQ(trainer.wait_committed(kAtOnce), Status::kTimeout);
  trainer.pool.reap(0);
  trainer.pool.reap(1);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
}

TEST(Workers, ItemsSubmittedLaterAreNeitherWaitedForNorRevoked) {
  Trainer trainer(1);
  ASSERT_EQ(trainer.submit({0, 1}), Status::kOk);
  const std::uint64_t first = trainer.pool.submitted();
  ASSERT_EQ(trainer.submit({2}), Status::kOk);
  EXPECT_EQ(trainer.pool.wait_committed(0, kAtOnce), Status::kOk);
  EXPECT_EQ(trainer.pool.wait_committed(first, kAtOnce), Status::kTimeout);
  trainer.pool.revoke(trainer.buffer->term(), first);
  EXPECT_FALSE(trainer.pool.is_wanted(1));
  EXPECT_TRUE(trainer.pool.is_wanted(2));
  trainer.pool.revoke(trainer.buffer->term(), 0);  // never fewer
  EXPECT_FALSE(trainer.pool.is_wanted(1));
  EXPECT_EQ(trainer.pool.wait_committed(first, Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.wait_committed(kAtOnce), Status::kTimeout);
}

TEST(Workers, ATermIsAbandonedOnlyWhileItLasts) {
  Trainer trainer(1);
  const std::uint64_t term = trainer.buffer->term();
  ASSERT_EQ(trainer.buffer->reset(1), Status::kOk);
  trainer.pool.abandon(term);
  EXPECT_FALSE(trainer.buffer->has_failed());
  trainer.pool.abandon(trainer.buffer->term());
  EXPECT_TRUE(trainer.buffer->has_failed());
}

TEST(Workers, RevokedItemsAreNotServed) {
  for (int turn = 0; turn < 200; ++turn) {
    Trainer trainer(1, 16);
    const std::unique_ptr<Worker> worker = trainer.hire(0);
    Indices served;
    std::thread consumer([&] { served = serve_out(*trainer.buffer); });
    ASSERT_EQ(trainer.submit(counted(12)), Status::kOk);
    std::thread revoker([&] { trainer.revoke(); });
    std::int64_t index = 0;
    // Those taken are written, all others called done.
    while (worker->take(index, kAtOnce) == Status::kOk) {
      write(*worker, index + 1);
      worker->done();
    }
    revoker.join();
    worker->take(index, kAtOnce);
    EXPECT_EQ(trainer.wait_committed(), Status::kOk);
    consumer.join();
    for (const std::int64_t each : served) EXPECT_GT(each, 0);
  }
}

TEST(Workers, RevokingATermThatIsOverDoesNotFailTheNext) {
  Trainer trainer(1);
  const std::uint64_t term = trainer.buffer->term();
  ASSERT_EQ(trainer.submit({0}), Status::kOk);
  trainer.revoke();
  trainer.begin_next();
  trainer.pool.revoke(term, trainer.pool.submitted());
  EXPECT_FALSE(trainer.buffer->has_failed());
  EXPECT_EQ(trainer.submit({1}), Status::kOk);
}

TEST(Workers, RevokingDoesNotWaitForAReset) {
  Trainer trainer(1);
  const std::uint64_t term = trainer.buffer->term();
  ASSERT_EQ(trainer.submit({0, 1, 2}), Status::kOk);
  // It waits for what is submitted, which only a revocation ends.
  std::thread resetter([&] { EXPECT_EQ(trainer.buffer->reset(1), Status::kOk); });
  const std::int64_t more = 3;
  std::uint64_t submitted = 0;
  while (trainer.pool.submit(term, &more, 1, submitted, kAtOnce) != Status::kClosed)
    submitted = 0;
  trainer.pool.revoke(term, trainer.pool.submitted());
  resetter.join();
  EXPECT_FALSE(trainer.buffer->has_failed());
}

TEST(Workers, SubmitWaitsForRoomAndEndsWithTheTerm) {
  Trainer trainer(1, 2);
  std::uint64_t submitted = 0;
  const Indices indices = counted(5);
  const std::uint64_t term = trainer.buffer->term();
  EXPECT_EQ(trainer.pool.submit(term, indices.data(), 5, submitted, kAtOnce),
            Status::kTimeout);
  EXPECT_EQ(submitted, 2);
  trainer.revoke();
  ASSERT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.buffer->fail();
  EXPECT_EQ(trainer.pool.submit(term, indices.data(), 5, submitted, Deadline::max()),
            Status::kClosed);
  EXPECT_EQ(submitted, 2);
}

TEST(Workers, SubmitToABusyWorkerEndsWithTheTerm) {
  Trainer trainer(1, 1);
  ASSERT_EQ(trainer.submit({0}), Status::kOk);
  const std::uint64_t term = trainer.buffer->term();
  std::thread giver([&] { EXPECT_EQ(trainer.submit({1}), Status::kClosed); });
  trainer.pool.abandon(term);
  giver.join();
}

TEST(Workers, AControlBlockOfAnotherVersionIsRefused) {
  const ControlBlock control_block(2);
  control_block.header().version += 1;
  EXPECT_THROW(ControlBlock(control_block.fd(), 2), std::invalid_argument);
}

TEST(Workers, AControlBlockOfAnotherSizeIsRefused) {
  const ControlBlock control_block(2);
  EXPECT_NO_THROW(ControlBlock(control_block.fd(), 2));
  EXPECT_THROW(ControlBlock(control_block.fd(), 1), std::invalid_argument);
  EXPECT_THROW(ControlBlock(control_block.fd(), 1000),
               std::system_error);  // past its end
  EXPECT_THROW(ControlBlock(-1, 2), std::system_error);
  const SharedMemory other(std::size_t{1} << 22);
  EXPECT_THROW(ControlBlock(other.fd(), 2), std::invalid_argument);
}

TEST(Workers, RecordsThatAreWholeBatchesAreRefused) {
  BufferOptions options = Trainer::options();
  options.lengths.examples = 2;
  options.batch_size = 1;
  EXPECT_THROW(Buffer{options}, std::invalid_argument);
}

}  // namespace
}  // namespace echobuf::workers
