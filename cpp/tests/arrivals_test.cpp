#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "workers_support.hpp"

namespace echobuf::workers {
namespace {

using test::counted;
using test::Indices;
using test::make;
using test::serve_out;
using test::work;
using test::write;

struct ArrivalTrainer : test::Trainer {
  explicit ArrivalTrainer(std::uint64_t workers, std::uint64_t ordered = 0)
      : Trainer(workers, 4, ordered) {}

  auto entered(std::uint64_t from) const { return pool.entered(buffer->term(), from); }
};

TEST(Arrivals, ASlowItemHoldsUpNoOther) {
  ArrivalTrainer trainer(2);
  const std::unique_ptr<Worker> slow = trainer.hire(0);
  const std::unique_ptr<Worker> fast = trainer.hire(1);
  ASSERT_EQ(trainer.submit(counted(1)), Status::kOk);
  std::int64_t index = -1;
  ASSERT_EQ(slow->take(index, Deadline::max()), Status::kOk);
  Indices later(64);
  std::iota(later.begin(), later.end(), 1);
  std::thread giver([&] { EXPECT_EQ(trainer.submit(later), Status::kOk); });
  Indices served;
  std::thread consumer([&] { served = serve_out(*trainer.buffer); });
  for (std::int64_t i = 1; i <= 64; ++i) make(*fast, i);
  giver.join();
  // All 64 have entered, behind none.
  const auto entered = [&] { return trainer.entered(0)->first.order.size(); };
  while (entered() < 64) std::this_thread::yield();
  EXPECT_EQ(trainer.pool.making(0), 0);
  write(*slow, index);
  slow->done();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.buffer->close();
  consumer.join();
  std::sort(served.begin(), served.end());
  EXPECT_EQ(served, counted(65));
  const auto known = trainer.entered(60);
  EXPECT_EQ(known->first.order, (std::vector<std::uint64_t>{61, 62, 63, 64, 0}));
  EXPECT_TRUE(known->first.missing.empty());
  EXPECT_EQ(known->second, 65);
}

TEST(Arrivals, AllAreServedOnceWhateverDies) {
  for (const double chance : {0.0, 0.2}) {
    ArrivalTrainer trainer(3);
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < 3; ++number)
      threads.emplace_back([&, number] { work(trainer, number, chance, write); });
    std::thread giver([&] {
      EXPECT_EQ(trainer.submit(counted(500)), Status::kOk);
      EXPECT_EQ(trainer.wait_committed(), Status::kOk);
      trainer.buffer->close();
    });
    Indices served = serve_out(*trainer.buffer);
    giver.join();
    trainer.pool.close();
    for (std::thread& thread : threads) thread.join();
    std::sort(served.begin(), served.end());
    EXPECT_EQ(served, counted(500));
    auto order = trainer.entered(0)->first.order;
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order.size(), 500);
    EXPECT_EQ(std::unique(order.begin(), order.end()), order.end());
  }
}

TEST(Arrivals, WhoHasTakenAnItemFindsAPlaceWhileMoreIsSubmitted) {
  constexpr std::uint64_t kAll = 4000;
  for (int round = 0; round < 5; ++round) {
    const auto board = std::make_unique<ItemBoard>();
    std::atomic<std::uint64_t> taken{0};
    std::vector<std::thread> threads;
    for (std::uint64_t by = 0; by < 3; ++by)
      threads.emplace_back([&, by] {
        while (taken < kAll) {
          if (!board->take_item(by)) continue;
          ++taken;
          EXPECT_TRUE(board->take_place(by));
        }
      });
    for (std::uint64_t number = 0; number < kAll; ++number) {
      ItemBoard::Item& item = board->at(number);
      item.turn.store(ItemBoard::kNone);
      item.place.offer(number);
      item.item.offer(number);
      board->submitted.store(number + 1);
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Arrivals, WorkersInTurnLookPastItemsThatWereTaken) {
  const auto board = std::make_unique<ItemBoard>();
  for (std::uint64_t number = 0; number < 100; ++number) {
    ItemBoard::Item& item = board->at(number);
    item.turn.store(number % 2);
    item.item.offer(number);
  }
  board->submitted.store(100);
  for (std::uint64_t number = 1; number < 20; number += 2)
    ASSERT_EQ(board->take_item(1), number);  // ahead of the other one
  EXPECT_EQ(board->next_item, 0u);
  for (std::uint64_t number = 0; number < 20; number += 2)
    ASSERT_EQ(board->take_item(0), number);
  EXPECT_EQ(board->next_item, 19u);
  for (std::uint64_t number = 20; number < 100; ++number)
    ASSERT_EQ(board->take_item(number % 2), number);
  EXPECT_EQ(board->next_item, 100u);
}

TEST(Arrivals, OrderedItemsEnterFirstAndInTheirOrder) {
  ArrivalTrainer trainer(3, 2);
  ASSERT_EQ(trainer.submit(counted(3)), Status::kOk);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::int64_t i = 0; i < 3; ++i) {
    workers.push_back(trainer.hire(static_cast<std::uint64_t>(i)));
    std::int64_t index = -1;
    ASSERT_EQ(workers.back()->take(index, Deadline::max()), Status::kOk);
    ASSERT_EQ(index, i);
  }
  EXPECT_EQ(trainer.entered(0)->first.order,
            (std::vector<std::uint64_t>{0, 1}));  // as is known before
  for (const std::size_t i : {2, 1, 0}) {
    write(*workers[i], static_cast<std::int64_t>(i));
    workers[i]->done();
  }
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  EXPECT_EQ(trainer.entered(0)->first.order, (std::vector<std::uint64_t>{0, 1, 2}));
  trainer.buffer->close();
  EXPECT_EQ(serve_out(*trainer.buffer).size(), 3);
}

/// What a worker that dies within done() leaves: written down, and marks missing.
class DiesWithinDone : public testing::TestWithParam<bool> {};

TEST_P(DiesWithinDone, ItsItemIsNotMadeAgain) {
  ArrivalTrainer trainer(1);
  ASSERT_EQ(trainer.submit(counted(3)), Status::kOk);
  std::int64_t index = -1;
  {
    const std::unique_ptr<Worker> worker = trainer.hire(0);
    ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
    write(*worker, index);
  }
  DoneQueue& queue = trainer.pool.control_block().queue(0);
  ItemBoard& board = trainer.pool.control_block().board();
  queue.entries[0] = {0, 0};
  queue.done.store(1);
  if (GetParam()) board.at(0).item.finish(0, 0);
  const std::unique_ptr<Worker> next = trainer.hire(0);
  make(*next, 1);
  make(*next, 2);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.buffer->close();
  Indices served = serve_out(*trainer.buffer);
  std::sort(served.begin(), served.end());
  EXPECT_EQ(served, counted(3));
}

INSTANTIATE_TEST_SUITE_P(Arrivals, DiesWithinDone, testing::Bool());

TEST(Arrivals, RevokedItemsAreGivenUpAndLaterOnesMade) {
  ArrivalTrainer trainer(2);
  ASSERT_EQ(trainer.submit(counted(4)), Status::kOk);
  const std::unique_ptr<Worker> worker = trainer.hire(0);
  std::int64_t index = -1;
  ASSERT_EQ(worker->take(index, Deadline::max()), Status::kOk);
  {
    const std::unique_ptr<Worker> dead = trainer.hire(1);
    ASSERT_EQ(dead->take(index, Deadline::max()), Status::kOk);
    write(*dead, index);
  }
  EXPECT_EQ(worker->wait_revoked(kAtOnce), Status::kTimeout);
  EXPECT_TRUE(trainer.pool.is_wanted(worker->item()));
  const std::uint64_t count = trainer.pool.submitted();
  trainer.pool.revoke(trainer.buffer->term(), count);
  EXPECT_FALSE(trainer.pool.is_wanted(worker->item()));
  EXPECT_EQ(worker->wait_revoked(Deadline::max()), Status::kOk);
  EXPECT_EQ(trainer.submit({4}), Status::kClosed);
  worker->done();
  EXPECT_EQ(trainer.pool.wait_committed(count, kAtOnce), Status::kTimeout);
  trainer.pool.reap(1);
  EXPECT_EQ(trainer.pool.wait_committed(count, Deadline::max()), Status::kOk);
  EXPECT_EQ(worker->take(index, kAtOnce), Status::kTimeout);
  trainer.begin_next();
  ASSERT_EQ(trainer.submit({7}), Status::kOk);
  make(*worker, 7);
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
  trainer.buffer->close();
  EXPECT_EQ(serve_out(*trainer.buffer), Indices{7});
}

TEST(Arrivals, AWorkerThatWritesNonsenseFailsTheTerm) {
  ArrivalTrainer trainer(1);
  ASSERT_EQ(trainer.submit(counted(2)), Status::kOk);
  DoneQueue& queue = trainer.pool.control_block().queue(0);
  queue.entries[0] = {99, 12345};
  queue.done.store(1);
  trainer.pool.control_block().header().done.notify();
  Batch batch;
  EXPECT_EQ(trainer.buffer->next(batch), Status::kFailed);
  trainer.revoke();
  EXPECT_EQ(trainer.wait_committed(), Status::kOk);
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
