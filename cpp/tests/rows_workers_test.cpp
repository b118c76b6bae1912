// Workers that make records of different lengths.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/shared/rows_delivery.hpp"
#include "echobuf/shared/rows_worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "ragged_support.hpp"

namespace echobuf::workers {
namespace {

using test::Ids;
using test::LengthsOf;
using test::Records;

constexpr std::uint64_t kShare = 24'000;  // bytes: an area has room for two and a half

BufferOptions pool_options() { return test::of_lengths(16, 4, {2, 1}, 2 * kShare); }

/// A buffer and its pool; workers are threads here, with mappings of their own.
struct Trainer {
  explicit Trainer(std::uint64_t workers, std::uint64_t ahead = 4)
      : buffer(std::make_shared<RaggedBuffer>(pool_options())),
        pool(buffer, workers, ahead),
        queues(workers) {}

  std::unique_ptr<RowsWorker> hire(std::uint64_t queue) const {
    const BufferOptions options = pool_options();
    const auto& delivery = pool.delivery();
    return std::make_unique<RowsWorker>(
        pool.control_block().fd(), queues, queue, delivery.memory()->fd(),
        delivery.sizes(),
        AreaRecord(record_of(options), options.lengths.fields, delivery.most()));
  }

  Status submit(const std::vector<std::int64_t>& indices) {
    std::uint64_t submitted = 0;
    return pool.submit(buffer->term(), indices.data(), indices.size(), submitted,
                       Deadline::max());
  }

  std::shared_ptr<RaggedBuffer> buffer;
  WorkerPool<RaggedBuffer, RowsDelivery<RaggedBuffer>> pool;
  std::uint64_t queues;
};

const LengthsOf kLengths = test::some_lengths(5'900);

Status write(RowsWorker& worker, std::uint64_t id, Deadline until = Deadline::max()) {
  const Records records({id}, kLengths);
  return worker.write(records.leaves(), until);
}

/// Works until the pool is closed; now and then leaves a ticket half-done and is hired
/// again, as a process is after it was killed.
void work(const Trainer& trainer, std::uint64_t queue, double chance_of_death) {
  std::mt19937 random(static_cast<unsigned>(queue));
  std::unique_ptr<RowsWorker> worker = trainer.hire(queue);
  for (;;) {
    std::int64_t index = 0;
    if (worker->take(index, Deadline::max()) == Status::kClosed) return;
    const bool dies = std::bernoulli_distribution(chance_of_death)(random);
    write(*worker, static_cast<std::uint64_t>(dies ? index + 13 : index));
    if (dies)
      worker = trainer.hire(queue);
    else
      worker->done();
  }
}

std::vector<std::int64_t> counted(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

Ids serve_out(RaggedBuffer& buffer) {
  Ids served;
  for (Batch batch; buffer.next(batch) == Status::kOk;) {
    const Ids ids = test::read_batch(batch, pool_options(), kLengths);
    served.insert(served.end(), ids.begin(), ids.end());
  }
  return served;
}

Ids order_with(std::uint64_t workers, double chance_of_death) {
  Trainer trainer(workers, 16);
  std::vector<std::thread> threads;
  for (std::uint64_t queue = 0; queue < workers; ++queue)
    threads.emplace_back([&, queue] { work(trainer, queue, chance_of_death); });
  std::thread giver([&] {
    EXPECT_EQ(trainer.submit(counted(300)), Status::kOk);
    EXPECT_EQ(trainer.pool.wait_committed(trainer.pool.submitted(), Deadline::max()),
              Status::kOk);
    trainer.buffer->close();
  });
  Ids served = serve_out(*trainer.buffer);
  giver.join();
  trainer.pool.close();
  for (std::thread& thread : threads) thread.join();
  return served;
}

TEST(RowsWorkers, OrderIsThatOfOneProducerWhateverTheirNumberAndTheirDeaths) {
  RaggedBuffer buffer(pool_options());
  Ids alone;
  std::thread producer([&] {
    Ids ids(300);
    std::iota(ids.begin(), ids.end(), 0);
    const Records records(ids, kLengths);
    std::uint64_t done = 0;
    EXPECT_EQ(buffer.put(buffer.term(), records.leaves(), 300, 0, done, Deadline::max(),
                         nullptr),
              Status::kOk);
    buffer.close();
  });
  alone = serve_out(buffer);
  producer.join();
  ASSERT_EQ(alone.size(), 600);
  EXPECT_EQ(order_with(1, 0), alone);
  EXPECT_EQ(order_with(3, 0), alone);
  EXPECT_EQ(order_with(3, 0.2), alone);
}

TEST(RowsWorkers, WhatIsMadeWaitsInTheAreaForWhatComesBefore) {
  Trainer trainer(2);
  ASSERT_EQ(trainer.submit({0, 1, 2, 3}), Status::kOk);  // to both in turn
  const auto first = trainer.hire(0);
  const auto second = trainer.hire(1);
  std::int64_t index = 0;
  for (const std::int64_t expected : {1, 3}) {
    ASSERT_EQ(second->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(index, expected);
    ASSERT_EQ(write(*second, static_cast<std::uint64_t>(index)), Status::kOk);
    second->done();
  }
  EXPECT_EQ(trainer.pool.outstanding(1), 2);
  EXPECT_EQ(trainer.buffer->stats().fresh, 0);
  for (const std::int64_t expected : {0, 2}) {
    ASSERT_EQ(first->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(index, expected);
    ASSERT_EQ(write(*first, static_cast<std::uint64_t>(index)), Status::kOk);
    first->done();
  }
  EXPECT_EQ(trainer.pool.wait_committed({2, 2}, Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.buffer->stats().fresh, 4);
}

TEST(RowsWorkers, AWorkerWaitsForRoomUntilItsTicketIsRevoked) {
  Trainer trainer(2);
  ASSERT_EQ(trainer.submit({0, 1, 2, 3, 4, 5, 6, 7}), Status::kOk);
  const auto worker = trainer.hire(1);  // of 1, 3, 5 and 7, which wait for 0
  std::vector<std::byte> tokens(kShare);
  const std::uint64_t id = 0;
  const SourceLeaf leaves[] = {SourceLeaf::of(&id),
                               SourceLeaf::of_rows(tokens.data(), kShare / 4, 4),
                               SourceLeaf::of_rows(tokens.data(), 0, 6)};
  std::int64_t index = 0;
  std::uint64_t made = 0;
  Status status = Status::kOk;
  while (made < 4) {
    ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
    status = worker->write(leaves, kAtOnce);
    if (status != Status::kOk) break;
    worker->done();
    ++made;
  }
  EXPECT_EQ(status, Status::kTimeout);
  EXPECT_GE(made, 1);
  // One that takes its place finds the same.
  EXPECT_EQ(trainer.hire(1)->write(leaves, kAtOnce), Status::kTimeout);
  trainer.pool.revoke(trainer.buffer->term(), trainer.pool.submitted());
  EXPECT_EQ(worker->write(leaves, Deadline::max()), Status::kClosed);
  worker->done();
  trainer.pool.reap(0);
  trainer.pool.reap(1);
  EXPECT_EQ(trainer.pool.wait_committed(trainer.pool.submitted(), Deadline::max()),
            Status::kOk);
  ASSERT_EQ(trainer.buffer->reset(1), Status::kOk);
  ASSERT_EQ(trainer.submit({8, 9}), Status::kOk);  // the area is free again
  for (std::uint64_t queue = 0; queue < 2; ++queue) {
    const auto next = trainer.hire(queue);
    ASSERT_EQ(next->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(next->write(leaves, Deadline::max()), Status::kOk);
    next->done();
  }
  EXPECT_EQ(trainer.pool.wait_committed(trainer.pool.submitted(), Deadline::max()),
            Status::kOk);
  EXPECT_EQ(trainer.buffer->stats().fresh, 2);
}

TEST(RowsWorkers, ALoopThatStopsDrawingHoldsNobodyUpForGood) {
  Trainer trainer(1, 16);
  std::thread worker([&] { work(trainer, 0, 0); });
  std::thread giver([&] { EXPECT_EQ(trainer.submit(counted(300)), Status::kClosed); });
  Batch batch;
  EXPECT_EQ(trainer.buffer->next(batch), Status::kOk);
  trainer.pool.revoke(trainer.buffer->term(), trainer.pool.submitted());
  giver.join();
  trainer.pool.revoke(trainer.buffer->term(), trainer.pool.submitted());
  EXPECT_EQ(trainer.pool.wait_committed(trainer.pool.submitted(), Deadline::max()),
            Status::kOk);
  trainer.pool.close();
  worker.join();
}

TEST(RowsWorkers, NonsenseOfAWorkerFailsTheTermAndReadsNothingElse) {
  const BufferOptions options = pool_options();
  for (const std::uint64_t nonsense :
       {~std::uint64_t{0}, kShare, std::uint64_t{1} << 62}) {
    Trainer trainer(1);
    ASSERT_EQ(trainer.submit({0}), Status::kOk);
    const auto worker = trainer.hire(0);
    std::int64_t index = 0;
    ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(write(*worker, 0), Status::kOk);
    const RowsAreas areas(trainer.pool.delivery().memory()->fd(), 1,
                          trainer.pool.delivery().sizes());
    *reinterpret_cast<std::uint64_t*>(areas.data(0)) = nonsense;
    worker->done();
    EXPECT_EQ(trainer.pool.wait_committed({1}, Deadline::max()), Status::kOk);
    EXPECT_TRUE(trainer.buffer->has_failed());
    EXPECT_EQ(trainer.buffer->stats().fresh, 0);
  }
}

TEST(RowsWorkers, AnExampleThatIsLargerThanAShareIsRefused) {
  const BufferOptions options = pool_options();
  const AreaRecord record(record_of(options), options.lengths.fields, kShare);
  std::vector<std::byte> rows(2 * kShare);
  const std::uint64_t id = 0;
  const auto bytes = [&](std::uint64_t tokens) {
    const SourceLeaf leaves[] = {SourceLeaf::of(&id),
                                 SourceLeaf::of_rows(rows.data(), tokens, 4),
                                 SourceLeaf::of_rows(rows.data(), 0, 6)};
    return record.bytes_of(leaves);
  };
  EXPECT_LE(bytes(kShare / 4), record.sizes(0, 1).all);
  EXPECT_THROW(bytes(kShare / 4 + 1), std::invalid_argument);
  EXPECT_THROW(bytes(~std::uint64_t{0} / 4), std::invalid_argument);
  EXPECT_THROW(AreaRecord(record_of(options), {}, kShare), std::invalid_argument);
}

}  // namespace
}  // namespace echobuf::workers
