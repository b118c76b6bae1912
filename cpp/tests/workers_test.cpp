#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"

namespace echobuf::workers {
namespace {

constexpr std::uint64_t kWords = 40;  // of a record: not one store

BufferOptions pool_options() {
  BufferOptions options;
  options.fields = {{8 * kWords, 1}};
  options.batch_size = 4;
  options.window = 32;
  options.factor = {1, 1};
  options.shared = true;
  return options;
}

const SharedMemory& shared(const Buffer& buffer) { return *buffer.shared_memory(); }

/// A buffer and its pool; workers are threads here, with mappings of their own.
struct Trainer {
  explicit Trainer(std::uint64_t workers, std::uint64_t ahead = 4)
      : buffer(std::make_shared<Buffer>(pool_options())),
        pool(buffer, workers, ahead),
        queues(workers) {}

  std::unique_ptr<Worker> hire(std::uint64_t queue) const {
    const BufferOptions options = pool_options();
    return std::make_unique<Worker>(
        pool.control_block().fd(), queues, queue, shared(*buffer).fd(),
        RecordLayout(options.fields, false),
        shared(*buffer).bytes() / RecordLayout(options.fields, false).stride());
  }

  Status submit(const std::vector<std::int64_t>& indices) {
    std::uint64_t submitted = 0;
    return pool.submit(buffer->term(), indices.data(), indices.size(), submitted,
                       Deadline::max());
  }

  void revoke() { pool.revoke(buffer->term(), pool.submitted()); }

  Status wait_committed(Deadline deadline) {
    return pool.wait_committed(pool.submitted(), deadline);
  }

  std::shared_ptr<Buffer> buffer;
  WorkerPool<Buffer> pool;
  std::uint64_t queues;
};

void write(Worker& worker, std::int64_t index) {
  const std::vector<std::int64_t> words(kWords, index);
  const SourceLeaf leaf = SourceLeaf::of(words.data(), kWords);
  worker.write(&leaf);
}

/// Works until the pool is closed; now and then leaves a ticket half-done and is hired
/// again, as a process is after it was killed.
void work(const Trainer& trainer, std::uint64_t queue, double chance_of_death) {
  std::mt19937 random(static_cast<unsigned>(queue));
  std::unique_ptr<Worker> worker = trainer.hire(queue);
  for (;;) {
    std::int64_t index = 0;
    if (worker->take(index, Deadline::max()) == Status::kClosed) return;
    const bool dies = std::bernoulli_distribution(chance_of_death)(random);
    write(*worker, dies ? -1 : index);
    if (dies)
      worker = trainer.hire(queue);
    else
      worker->done();
  }
}

/// All that is served, each record checked to be whole; sorted.
std::vector<std::int64_t> serve_out(Buffer& buffer) {
  std::vector<std::int64_t> served;
  for (Batch batch; buffer.next(batch) == Status::kOk;) {
    const auto* words = buffer.field<std::int64_t>(batch, 0);
    for (std::uint64_t i = 0; i < batch.count; ++i) {
      for (std::uint64_t w = 1; w < kWords; ++w)
        EXPECT_EQ(words[i * kWords + w], words[i * kWords]);
      served.push_back(words[i * kWords]);
    }
  }
  return served;
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<std::int64_t> order_with(std::uint64_t workers, double chance_of_death) {
  Trainer trainer(workers);
  std::vector<std::thread> threads;
  for (std::uint64_t queue = 0; queue < workers; ++queue)
    threads.emplace_back([&, queue] { work(trainer, queue, chance_of_death); });
  std::thread giver([&] {
    EXPECT_EQ(trainer.submit(counted(500)), Status::kOk);
    trainer.buffer->close();
  });
  std::vector<std::int64_t> served = serve_out(*trainer.buffer);
  giver.join();
  EXPECT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
  trainer.pool.close();
  for (std::thread& thread : threads) thread.join();
  return served;
}

TEST(Workers, OrderIsThatOfTheIndicesWhateverTheirNumberAndTheirDeaths) {
  const std::vector<std::int64_t> alone = order_with(1, 0);
  EXPECT_EQ(alone.size(), 500);
  EXPECT_EQ(order_with(3, 0), alone);
  EXPECT_EQ(order_with(3, 0.2), alone);
}

TEST(Workers, AWorkerThatDiesLeavesItsTicketsToTheNext) {
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
  EXPECT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
}

TEST(Workers, RevokedTicketsAreSkippedAndLaterOnesMade) {
  Trainer trainer(1);
  ASSERT_EQ(trainer.submit({0, 1, 2}), Status::kOk);
  const std::unique_ptr<Worker> worker = trainer.hire(0);
  std::int64_t index = -1;
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  EXPECT_EQ(worker->wait_revoked(kAtOnce), Status::kTimeout);
  EXPECT_TRUE(trainer.pool.is_wanted(0, worker->ticket()));
  trainer.revoke();
  EXPECT_FALSE(trainer.pool.is_wanted(0, worker->ticket()));
  EXPECT_EQ(worker->wait_revoked(Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.submit({3}), Status::kClosed);
  worker->done();
  EXPECT_EQ(worker->take(index, kAtOnce), Status::kTimeout);
  ASSERT_EQ(trainer.buffer->reset(1), Status::kOk);
  ASSERT_EQ(trainer.submit({3}), Status::kOk);
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  EXPECT_EQ(index, 3);
  worker->done();
  EXPECT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
}

TEST(Workers, RevokedTicketsOfADeadWorkerAreReaped) {
  Trainer trainer(2, 1);
  ASSERT_EQ(trainer.submit({0, 1}), Status::kOk);
  trainer.pool.reap(0);  // nothing was revoked: nothing is lost
  EXPECT_EQ(trainer.pool.outstanding(0), 1);
  EXPECT_EQ(trainer.wait_committed(kAtOnce), Status::kTimeout);
  trainer.revoke();
  trainer.pool.reap(0);
  trainer.pool.reap(1);
  EXPECT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
}

TEST(Workers, TicketsSubmittedLaterAreNeitherWaitedForNorRevoked) {
  Trainer trainer(1);
  const std::vector<std::uint64_t> none = trainer.pool.submitted();
  ASSERT_EQ(trainer.submit({0, 1}), Status::kOk);
  const std::vector<std::uint64_t> first = trainer.pool.submitted();
  ASSERT_EQ(trainer.submit({2}), Status::kOk);
  EXPECT_EQ(trainer.pool.wait_committed(none, kAtOnce), Status::kOk);
  EXPECT_EQ(trainer.pool.wait_committed(first, kAtOnce), Status::kTimeout);
  trainer.pool.revoke(trainer.buffer->term(), first);
  EXPECT_FALSE(trainer.pool.is_wanted(0, 1));
  EXPECT_TRUE(trainer.pool.is_wanted(0, 2));
  trainer.pool.revoke(trainer.buffer->term(), none);  // never fewer
  EXPECT_FALSE(trainer.pool.is_wanted(0, 1));
  trainer.pool.reap(0);
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

TEST(Workers, RevokedTicketsAreNotServed) {
  for (int turn = 0; turn < 200; ++turn) {
    Trainer trainer(1, 16);
    const std::unique_ptr<Worker> worker = trainer.hire(0);
    std::vector<std::int64_t> served;
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
    EXPECT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
    consumer.join();
    for (const std::int64_t each : served) EXPECT_GT(each, 0);
  }
}

TEST(Workers, RevokingATermThatIsOverDoesNotFailTheNext) {
  Trainer trainer(1);
  const std::uint64_t term = trainer.buffer->term();
  ASSERT_EQ(trainer.submit({0}), Status::kOk);
  trainer.revoke();
  trainer.pool.reap(0);
  ASSERT_EQ(trainer.buffer->reset(1), Status::kOk);
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
  trainer.pool.reap(0);
  resetter.join();
  EXPECT_FALSE(trainer.buffer->has_failed());
}

TEST(Workers, SubmitWaitsForRoomAndEndsWithTheTerm) {
  Trainer trainer(1, 2);
  std::uint64_t submitted = 0;
  const std::vector<std::int64_t> indices = counted(5);
  const std::uint64_t term = trainer.buffer->term();
  EXPECT_EQ(trainer.pool.submit(term, indices.data(), 5, submitted, kAtOnce),
            Status::kTimeout);
  EXPECT_EQ(submitted, 2);
  trainer.revoke();
  trainer.pool.reap(0);
  ASSERT_EQ(trainer.wait_committed(Deadline::max()), Status::kOk);
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
  BufferOptions options = pool_options();
  options.ragged = true;
  options.batch_size = 1;
  EXPECT_THROW(Buffer{options}, std::invalid_argument);
}

}  // namespace
}  // namespace echobuf::workers
