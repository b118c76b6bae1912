#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/shared/arrival_pool.hpp"
#include "echobuf/shared/worker.hpp"

namespace echobuf::workers {
namespace {

constexpr std::uint64_t kArrivalWords = 40;  // of a record: not one store
constexpr std::uint64_t kKept = 1000;

BufferOptions arrival_options() {
  BufferOptions options;
  options.fields = {{8 * kArrivalWords, 1}};
  options.batch_size = 4;
  options.window = 32;
  options.factor = {1, 1};
  options.shared = true;
  return options;
}

/// A buffer and its pool; workers are threads here, with mappings of their own.
struct ArrivalTrainer {
  explicit ArrivalTrainer(std::uint64_t workers, std::uint64_t ordered = 0)
      : buffer(std::make_shared<Buffer>(arrival_options())),
        pool(std::make_unique<ArrivalSlots<Buffer>>(buffer), workers, 4, kKept,
             nullptr),
        queues(workers) {
    pool.begin(buffer->term(), ordered);
  }

  std::unique_ptr<Worker> hire(std::uint64_t queue) const {
    const BufferOptions options = arrival_options();
    const SharedMemory& slots = *buffer->shared_memory();
    const RecordLayout layout(options.fields, false);
    return std::make_unique<Worker>(pool.control_block().fd(), queues, queue,
                                    slots.fd(), layout,
                                    slots.bytes() / layout.stride());
  }

  Status submit(std::int64_t first, std::int64_t n) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
    std::iota(indices.begin(), indices.end(), first);
    std::uint64_t submitted = 0;
    return pool.submit(buffer->term(), indices.data(), indices.size(), submitted,
                       Deadline::max());
  }

  Status wait_all() { return pool.wait_committed(pool.submitted(), Deadline::max()); }

  std::shared_ptr<Buffer> buffer;
  ArrivalPool pool;
  std::uint64_t queues;
};

void write_arrival(Worker& worker, std::int64_t index) {
  const std::vector<std::int64_t> words(kArrivalWords, index);
  const SourceLeaf leaf = SourceLeaf::of(words.data(), kArrivalWords);
  worker.write(&leaf);
}

void make_arrival(Worker& worker, std::int64_t expected) {
  std::int64_t index = -1;
  ASSERT_EQ(worker.take(index, Deadline::max()), Status::kOk);
  ASSERT_EQ(index, expected);
  write_arrival(worker, index);
  worker.done();
}

/// Works until the pool is closed; dies now and then, before or after it has written.
void work_arrivals(const ArrivalTrainer& trainer, std::uint64_t queue,
                   double chance_of_death) {
  std::mt19937 random(static_cast<unsigned>(queue));
  std::bernoulli_distribution dies(chance_of_death);
  std::unique_ptr<Worker> worker = trainer.hire(queue);
  for (;;) {
    std::int64_t index = 0;
    if (worker->take(index, Deadline::max()) == Status::kClosed) return;
    if (dies(random)) {
      worker = trainer.hire(queue);
      continue;
    }
    const bool dies_late = dies(random);
    write_arrival(*worker, dies_late ? -1 : index);
    if (dies_late)
      worker = trainer.hire(queue);
    else
      worker->done();
  }
}

/// All that is served, each record checked to be whole.
std::vector<std::int64_t> serve_arrivals(Buffer& buffer) {
  std::vector<std::int64_t> served;
  for (Batch batch; buffer.next(batch) == Status::kOk;) {
    const auto* words = buffer.field<std::int64_t>(batch, 0);
    for (std::uint64_t i = 0; i < batch.count; ++i) {
      for (std::uint64_t w = 1; w < kArrivalWords; ++w)
        EXPECT_EQ(words[i * kArrivalWords + w], words[i * kArrivalWords]);
      served.push_back(words[i * kArrivalWords]);
    }
  }
  return served;
}

std::vector<std::int64_t> numbers_to(std::int64_t n) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(Arrivals, ASlowItemHoldsUpNoOther) {
  ArrivalTrainer trainer(2);
  const std::unique_ptr<Worker> slow = trainer.hire(0);
  const std::unique_ptr<Worker> fast = trainer.hire(1);
  ASSERT_EQ(trainer.submit(0, 1), Status::kOk);
  std::int64_t index = -1;
  ASSERT_EQ(slow->take(index, Deadline::max()), Status::kOk);
  std::thread giver([&] { EXPECT_EQ(trainer.submit(1, 64), Status::kOk); });
  std::vector<std::int64_t> served;
  std::thread consumer([&] { served = serve_arrivals(*trainer.buffer); });
  for (std::int64_t i = 1; i <= 64; ++i) make_arrival(*fast, i);
  giver.join();
  // All 64 have entered, behind none.
  const auto entered = [&] {
    return trainer.pool.entered(trainer.buffer->term(), 0)->first.order.size();
  };
  while (entered() < 64) std::this_thread::yield();
  EXPECT_EQ(trainer.pool.making(0), 0);
  write_arrival(*slow, index);
  slow->done();
  EXPECT_EQ(trainer.wait_all(), Status::kOk);
  trainer.buffer->close();
  consumer.join();
  std::sort(served.begin(), served.end());
  EXPECT_EQ(served, numbers_to(65));
  const auto known = trainer.pool.entered(trainer.buffer->term(), 60);
  EXPECT_EQ(known->first.order, (std::vector<std::uint64_t>{61, 62, 63, 64, 0}));
  EXPECT_TRUE(known->first.missing.empty());
  EXPECT_EQ(known->second, 65);
}

TEST(Arrivals, AllAreServedOnceWhateverDies) {
  for (const double chance : {0.0, 0.2}) {
    ArrivalTrainer trainer(3);
    std::vector<std::thread> threads;
    for (std::uint64_t queue = 0; queue < 3; ++queue)
      threads.emplace_back([&, queue] { work_arrivals(trainer, queue, chance); });
    std::thread giver([&] {
      EXPECT_EQ(trainer.submit(0, 500), Status::kOk);
      EXPECT_EQ(trainer.wait_all(), Status::kOk);
      trainer.buffer->close();
    });
    std::vector<std::int64_t> served = serve_arrivals(*trainer.buffer);
    giver.join();
    trainer.pool.close();
    for (std::thread& thread : threads) thread.join();
    std::sort(served.begin(), served.end());
    EXPECT_EQ(served, numbers_to(500));
    auto order = trainer.pool.entered(trainer.buffer->term(), 0)->first.order;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order.size(), 500);
    EXPECT_EQ(std::unique(order.begin(), order.end()), order.end());
  }
}

TEST(Arrivals, OrderedItemsEnterFirstAndInTheirOrder) {
  ArrivalTrainer trainer(3, 2);
  ASSERT_EQ(trainer.submit(0, 3), Status::kOk);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::int64_t i = 0; i < 3; ++i) {
    workers.push_back(trainer.hire(static_cast<std::uint64_t>(i)));
    std::int64_t index = -1;
    ASSERT_EQ(workers.back()->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(index, i);
  }
  const std::uint64_t term = trainer.buffer->term();
  EXPECT_EQ(trainer.pool.entered(term, 0)->first.order,
            (std::vector<std::uint64_t>{0, 1}));  // as is known before
  for (const std::size_t i : {2, 1, 0}) {
    write_arrival(*workers[i], static_cast<std::int64_t>(i));
    workers[i]->done();
  }
  EXPECT_EQ(trainer.wait_all(), Status::kOk);
  EXPECT_EQ(trainer.pool.entered(term, 0)->first.order,
            (std::vector<std::uint64_t>{0, 1, 2}));
  trainer.buffer->close();
  EXPECT_EQ(serve_arrivals(*trainer.buffer).size(), 3);
}

/// What a worker that dies within done() leaves: written down, and marks missing.
class DiesWithinDone : public testing::TestWithParam<bool> {};

TEST_P(DiesWithinDone, ItsItemIsNotMadeAgain) {
  ArrivalTrainer trainer(1);
  ASSERT_EQ(trainer.submit(0, 3), Status::kOk);
  std::int64_t index = -1;
  {
    const std::unique_ptr<Worker> worker = trainer.hire(0);
    ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
    write_arrival(*worker, index);
  }
  WorkerQueue& queue = trainer.pool.control_block().queue(0);
  ItemBoard& board = trainer.pool.control_block().board();
  queue.tickets[0] = {0, 0};
  queue.done.store(1);
  if (GetParam()) board.at(0).item.finish(0, 0);
  const std::unique_ptr<Worker> next = trainer.hire(0);
  make_arrival(*next, 1);
  make_arrival(*next, 2);
  EXPECT_EQ(trainer.wait_all(), Status::kOk);
  trainer.buffer->close();
  std::vector<std::int64_t> served = serve_arrivals(*trainer.buffer);
  std::sort(served.begin(), served.end());
  EXPECT_EQ(served, numbers_to(3));
}

INSTANTIATE_TEST_SUITE_P(Arrivals, DiesWithinDone, testing::Bool());

TEST(Arrivals, RevokedItemsAreGivenUpAndLaterOnesMade) {
  ArrivalTrainer trainer(2);
  ASSERT_EQ(trainer.submit(0, 4), Status::kOk);
  const std::unique_ptr<Worker> worker = trainer.hire(0);
  std::int64_t index = -1;
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  {
    const std::unique_ptr<Worker> dead = trainer.hire(1);
    ASSERT_EQ(dead->take(index, Deadline::max()), Status::kOk);
    write_arrival(*dead, index);
  }
  EXPECT_EQ(worker->wait_revoked(kAtOnce), Status::kTimeout);
  EXPECT_TRUE(trainer.pool.is_wanted(worker->id()));
  const std::uint64_t count = trainer.pool.submitted();
  trainer.pool.revoke(trainer.buffer->term(), count);
  EXPECT_FALSE(trainer.pool.is_wanted(worker->id()));
  EXPECT_EQ(worker->wait_revoked(Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.submit(4, 1), Status::kClosed);
  worker->done();
  EXPECT_EQ(trainer.pool.wait_committed(count, kAtOnce), Status::kTimeout);
  trainer.pool.reap(1);
  EXPECT_EQ(trainer.pool.wait_committed(count, Deadline::max()), Status::kOk);
  EXPECT_EQ(worker->take(index, kAtOnce), Status::kTimeout);
  ASSERT_EQ(trainer.buffer->reset(1), Status::kOk);
  trainer.pool.begin(trainer.buffer->term(), 0);
  ASSERT_EQ(trainer.submit(7, 1), Status::kOk);
  make_arrival(*worker, 7);
  EXPECT_EQ(trainer.wait_all(), Status::kOk);
  trainer.buffer->close();
  EXPECT_EQ(serve_arrivals(*trainer.buffer), std::vector<std::int64_t>{7});
}

TEST(Arrivals, AWorkerThatWritesNonsenseFailsTheTerm) {
  ArrivalTrainer trainer(1);
  ASSERT_EQ(trainer.submit(0, 2), Status::kOk);
  WorkerQueue& queue = trainer.pool.control_block().queue(0);
  queue.tickets[0] = {99, 12345};
  queue.done.store(1);
  trainer.pool.control_block().header().done.notify();
  Batch batch;
  EXPECT_EQ(trainer.buffer->next(batch), Status::kFailed);
  trainer.pool.revoke(trainer.buffer->term(), trainer.pool.submitted());
  EXPECT_EQ(trainer.wait_all(), Status::kOk);
}

TEST(Arrivals, TheJournalKnowsWhatASetDoes) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 50; ++turn) {
    const std::uint64_t ordered = random() % 6, n = 6 + random() % 60;
    std::vector<std::uint64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(ordered), order.end(),
                 random);
    ArrivalJournal journal(3, ordered, 20);
    std::vector<std::uint64_t> pending(n);  // entries become known in another order
    std::iota(pending.begin(), pending.end(), 0);
    for (auto i = pending.begin(); i + 3 < pending.end(); i += 3)
      std::shuffle(i, i + 3, random);
    std::set<std::uint64_t> known;
    for (const std::uint64_t entry : pending) {
      journal.enter(entry, order[entry]);
      known.insert(entry);
      std::uint64_t end = 0;
      while (known.count(end) > 0) ++end;
      ASSERT_EQ(journal.end(), end);
      end = std::max(end, ordered);
      const std::uint64_t from = end > 10 ? end - 10 : 0;
      const auto found = journal.entered(from);
      ASSERT_TRUE(std::equal(found.order.begin(), found.order.end(),
                             order.begin() + static_cast<std::ptrdiff_t>(from),
                             order.begin() + static_cast<std::ptrdiff_t>(end)));
      const std::set<std::uint64_t> in(
          order.begin(), order.begin() + static_cast<std::ptrdiff_t>(end));
      const std::uint64_t limit = in.empty() ? 0 : *in.rbegin() + 1;
      ASSERT_EQ(journal.limit(), limit);
      std::vector<std::uint64_t> missing;
      for (std::uint64_t item = 0; item < limit; ++item)
        if (in.count(item) == 0) missing.push_back(item);
      ASSERT_EQ(found.missing, missing);
    }
  }
}

}  // namespace
}  // namespace echobuf::workers
