// Workers that make records of different lengths.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ragged_support.hpp"
#include "workers_support.hpp"

namespace echobuf::workers {
namespace {

using test::counted;
using test::Ids;
using test::LengthsOf;
using test::Records;
using test::work;

constexpr std::uint64_t kShare = 24'000;  // bytes: an area has room for two and a half

BufferOptions rows_options() { return test::of_lengths(16, 4, {2, 1}, 2 * kShare); }

struct RowsTrainer : test::BasicTrainer<Buffer> {
  explicit RowsTrainer(std::uint64_t workers, std::uint64_t ahead = 4,
                       std::optional<std::uint64_t> order = std::nullopt)
      : BasicTrainer(rows_options(), workers, ahead, order) {}
};

const LengthsOf kLengths = test::some_lengths(5'900);

Status write_rows(Worker& worker, std::int64_t id) {
  const Records records({static_cast<std::uint64_t>(id)}, kLengths);
  return worker.write(records.leaves(), Deadline::max());
}

void make_rows(Worker& worker, std::int64_t expected) {
  std::int64_t index = -1;
  ASSERT_EQ(worker.take(index, Deadline::max()), Status::kOk);
  ASSERT_EQ(index, expected);
  ASSERT_EQ(write_rows(worker, index), Status::kOk);
  worker.done();
}

Ids serve_rows(Buffer& buffer) {
  Ids served;
  for (Batch batch; buffer.next(batch) == Status::kOk;) {
    const Ids ids = test::read_batch(batch, rows_options(), kLengths);
    served.insert(served.end(), ids.begin(), ids.end());
  }
  return served;
}

Ids rows_order_with(std::uint64_t workers, double chance_of_death) {
  RowsTrainer trainer(workers, 16);
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < workers; ++number)
    threads.emplace_back(
        [&, number] { work(trainer, number, chance_of_death, write_rows); });
  std::thread giver([&] {
    EXPECT_EQ(trainer.submit(counted(300)), Status::kOk);
    EXPECT_EQ(trainer.wait_committed(), Status::kOk);
    trainer.buffer->close();
  });
  Ids served = serve_rows(*trainer.buffer);
  giver.join();
  trainer.pool.close();
  for (std::thread& thread : threads) thread.join();
  return served;
}

TEST(RowsWorkers, OrderIsThatOfOneProducerWhateverTheirNumberAndTheirDeaths) {
  Buffer buffer(rows_options());
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
  alone = serve_rows(buffer);
  producer.join();
  ASSERT_EQ(alone.size(), 600);
  EXPECT_EQ(rows_order_with(1, 0), alone);
  EXPECT_EQ(rows_order_with(3, 0), alone);
  EXPECT_EQ(rows_order_with(3, 0.2), alone);
}

TEST(RowsWorkers, WhatIsMadeWaitsInTheAreaForWhatComesBefore) {
  RowsTrainer trainer(2);
  ASSERT_EQ(trainer.submit({0, 1, 2, 3}), Status::kOk);
  const auto first = trainer.hire(0);
  const auto second = trainer.hire(1);
  std::int64_t index = 0;
  ASSERT_EQ(first->take(index, Deadline::max()), Status::kOk);
  ASSERT_EQ(index, 0);
  for (const std::int64_t expected : {1, 3}) make_rows(*second, expected);
  EXPECT_EQ(trainer.pool.wait_committed(1, kAtOnce), Status::kTimeout);
  EXPECT_EQ(trainer.buffer->stats().fresh, 0);
  ASSERT_EQ(write_rows(*first, 0), Status::kOk);
  first->done();
  EXPECT_EQ(trainer.pool.wait_committed(2, Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.buffer->stats().fresh, 2);
  make_rows(*first, 2);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  EXPECT_EQ(trainer.buffer->stats().fresh, 4);
}

TEST(RowsWorkers, ASlowItemHoldsUpNoOtherThatIsHeldToNoOrder) {
  RowsTrainer trainer(2, 4, 0);
  ASSERT_EQ(trainer.submit({0, 1, 2}), Status::kOk);
  const auto slow = trainer.hire(0);
  const auto fast = trainer.hire(1);
  std::int64_t index = 0;
  ASSERT_EQ(slow->take(index, Deadline::max()), Status::kOk);
  for (const std::int64_t expected : {1, 2}) make_rows(*fast, expected);
  while (trainer.buffer->stats().fresh < 2) std::this_thread::yield();
  ASSERT_EQ(write_rows(*slow, 0), Status::kOk);
  slow->done();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  EXPECT_EQ(trainer.pool.entered(trainer.buffer->term(), 0)->first.order,
            (std::vector<std::uint64_t>{1, 2, 0}));
}

TEST(RowsWorkers, AWorkerWaitsForRoomUntilItsItemIsRevoked) {
  RowsTrainer trainer(2);
  ASSERT_EQ(trainer.submit({0, 1, 2, 3, 4, 5, 6, 7}), Status::kOk);
  std::int64_t index = 0;
  // It dies with item 0, for which all others wait.
  ASSERT_EQ(trainer.hire(0)->take(index, Deadline::max()), Status::kOk);
  const auto worker = trainer.hire(1);
  std::vector<std::byte> tokens(kShare);
  const std::uint64_t id = 0;
  const SourceLeaf leaves[] = {SourceLeaf::of(&id),
                               SourceLeaf::of_rows(tokens.data(), kShare / 4, 4),
                               SourceLeaf::of_rows(tokens.data(), 0, 6)};
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
  trainer.revoke();
  EXPECT_EQ(worker->write(leaves, Deadline::max()), Status::kClosed);
  worker->done();
  trainer.pool.reap(0);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.begin_next();
  ASSERT_EQ(trainer.submit({8, 9}), Status::kOk);  // the area is free again
  for (std::uint64_t number = 0; number < 2; ++number) {
    const auto next = trainer.hire(number);
    ASSERT_EQ(next->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(next->write(leaves, Deadline::max()), Status::kOk);
    next->done();
  }
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  EXPECT_EQ(trainer.buffer->stats().fresh, 2);
}

TEST(RowsWorkers, ALoopThatStopsDrawingHoldsNobodyUpForGood) {
  RowsTrainer trainer(1, 16);
  std::thread worker([&] { work(trainer, 0, 0, write_rows); });
  std::thread giver([&] { EXPECT_EQ(trainer.submit(counted(300)), Status::kClosed); });
  Batch batch;
  EXPECT_EQ(trainer.buffer->next(batch), Status::kOk);
  trainer.revoke();
  giver.join();
  trainer.revoke();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.pool.close();
  worker.join();
}

TEST(RowsWorkers, NonsenseOfAWorkerFailsTheTermAndReadsNothingElse) {
  const BufferOptions options = rows_options();
  for (const std::uint64_t nonsense :
       {~std::uint64_t{0}, kShare, std::uint64_t{1} << 62}) {
    RowsTrainer trainer(1);
    ASSERT_EQ(trainer.submit({0}), Status::kOk);
    const auto worker = trainer.hire(0);
    std::int64_t index = 0;
    ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(write_rows(*worker, 0), Status::kOk);
    // By a mapping of its own, as a worker has: ThreadSanitizer does not see that the
    // queue, in another mapping, orders this before the collector's read.
    const RowsAreas& areas = *trainer.pool.areas();
    const RowsAreas own(trainer.pool.memory()->fd(), 1, areas.record(), areas.sizes());
    *reinterpret_cast<std::uint64_t*>(own.data(0)) = nonsense;
    worker->done();
    EXPECT_EQ(trainer.wait_committed(), Status::kOk);
    EXPECT_TRUE(trainer.buffer->has_failed());
    EXPECT_EQ(trainer.buffer->stats().fresh, 0);
  }
}

TEST(RowsWorkers, AnExampleThatIsLargerThanAShareIsRefused) {
  const BufferOptions options = rows_options();
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
