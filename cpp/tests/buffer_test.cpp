#include "echobuf/buffer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

std::vector<Ids> cut(const Ids& draws, std::uint64_t batch_size, bool drop_last) {
  std::vector<Ids> batches;
  for (std::size_t at = 0; at < draws.size(); at += batch_size) {
    const std::size_t end = std::min<std::size_t>(draws.size(), at + batch_size);
    if (drop_last && end - at < batch_size) break;
    batches.emplace_back(draws.begin() + static_cast<std::ptrdiff_t>(at),
                         draws.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

TEST(Buffer, ServesWhatASimulationServes) {
  for (BufferOptions options : kFixed)
    for (const std::uint32_t prefetch : {0u, 2u})
      for (const bool drop_last : {false, true}) {
        options.prefetch = prefetch;
        options.drop_last = drop_last;
        SCOPED_TRACE(name_of(options));
        for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1},
                                      options.window, 5 * options.window + 3}) {
          Buffer buffer(options);
          const Ids draws = expected_draws(options, n, 0);
          const Epochs got = serve(buffer, n);
          ASSERT_EQ(got.batches, cut(draws, options.batch_size, drop_last));
          if (!drop_last) {
            ASSERT_EQ(buffer.stats().served, draws.size());
          }
          ASSERT_EQ(buffer.stats().fresh, n);
          // Not that of the last batch: with drop_last it can be out before the end.
          ASSERT_TRUE(buffer.checkpoint().epoch_done);
        }
      }
}

TEST(Buffer, UsesEachExampleAsOftenAsTheFactorSays) {
  for (const BufferOptions& options : kFixed) {
    SCOPED_TRACE(name_of(options));
    Buffer buffer(options);
    const std::uint64_t n = 7 * options.window + 1;
    const Ids count = uses(joined(serve(buffer, n).batches), n);
    for (const std::uint64_t times : count) {
      ASSERT_GE(times, options.factor.num / options.factor.den);
      ASSERT_LE(times, options.factor.ceil());
    }
  }
}

TEST(Buffer, ServesEverythingBetweenOnceAndMaxFactorIfAutomatic) {
  for (const std::uint32_t prefetch : {0u, 2u})
    for (const std::uint64_t window : {1u, 2u, 7u, 64u, 100u})
      for (const std::uint64_t batch : {std::uint64_t{1}, (window + 2) / 3, window}) {
        BufferOptions options = numbered_auto(window, batch, 3);
        options.prefetch = prefetch;
        Buffer buffer(options);
        const std::uint64_t n = 5 * window + 2;
        const Epochs got = serve(buffer, n);
        for (const std::uint64_t times : uses(joined(got.batches), n)) {
          ASSERT_GE(times, 1u);
          ASSERT_LE(times, 3u);
        }
        ASSERT_TRUE(buffer.checkpoint().epoch_done);
      }
}

TEST(Buffer, ServesRaggedRecordsWithTheirLength) {
  BufferOptions options = numbered(3, 1, {2, 1});
  options.fields = {{sizeof(std::uint64_t), 5}};
  options.ragged = true;
  Buffer buffer(options);
  std::vector<Ids> put_records, got;
  for (std::uint64_t id = 0; id < 12;) {
    const Ids rows(id % 6, id);  // 0 ... 5 rows
    const SourceLeaf leaf{reinterpret_cast<const std::byte*>(rows.data()), 0};
    std::uint64_t done = 0;
    if (buffer.put(buffer.term(), &leaf, 1, rows.size(), done, kAtOnce, nullptr) ==
        Status::kOk) {
      put_records.push_back(rows);
      ++id;
      if (id == 12) buffer.close();
    }
    Ids record;
    while (next(buffer, record, kAtOnce) == Status::kOk) got.push_back(record);
  }
  std::vector<Ids> twice = put_records;
  twice.insert(twice.end(), put_records.begin(), put_records.end());
  std::sort(twice.begin(), twice.end());
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, twice);
}

TEST(Buffer, GoesOnFromACheckpointAfterAnyBatch) {
  for (BufferOptions options : kFixed)
    for (const std::uint32_t prefetch : {0u, 2u}) {
      options.prefetch = prefetch;
      options.epoch = 3;
      SCOPED_TRACE(name_of(options));
      const std::uint64_t n = 4 * options.window + 1;
      Buffer whole(options);
      const Epochs all = serve(whole, n);
      for (std::size_t k = 0; k + 1 < all.batches.size(); ++k) {
        ASSERT_EQ(all.after[k].epoch, 3u);
        ASSERT_FALSE(all.after[k].epoch_done);
        Buffer rest(options);
        ASSERT_TRUE(rest.restore(all.after[k]));
        const std::uint64_t first = oldest_record(all.after[k].sweep);
        const Epochs got = serve(rest, n, first);
        const std::vector<Ids> left(
            all.batches.begin() + static_cast<std::ptrdiff_t>(k) + 1,
            all.batches.end());
        ASSERT_EQ(got.batches, left) << "after batch " << k;
        ASSERT_FALSE(rest.restore(all.after[k])) << "it has been used";
      }
    }
}

TEST(Buffer, ContinuesTheCurrentPassFromACheckpointIfAutomatic) {
  const BufferOptions options = numbered_auto(40, 3, 4);
  Buffer whole(options);
  Ids ids;
  std::uint64_t fresh = 0;
  for (int k = 0; k < 60; ++k) {
    fresh = put_what_fits(whole, fresh, fresh + 4);
    if (next(whole, ids, kAtOnce) != Status::kOk) continue;
    const Checkpoint point = whole.checkpoint();
    const auto& sweep = std::get<AutoSweep>(point.sweep);
    const std::uint64_t left = sweep.schedule().span().count - sweep.position().offset;
    if (left < options.batch_size) continue;
    Buffer rest(options);
    ASSERT_TRUE(rest.restore(point));
    const std::uint64_t first = oldest_record(point.sweep);
    ASSERT_EQ(put_what_fits(rest, first, sweep.resident_end()), sweep.resident_end());
    Ids theirs;
    ASSERT_EQ(next(rest, theirs, kAtOnce), Status::kOk);
    ASSERT_EQ(next(whole, ids, kAtOnce), Status::kOk);
    ASSERT_EQ(theirs, ids);
  }
}

TEST(Buffer, NamesItsEpochInACheckpointFromTheStart) {
  BufferOptions options = numbered(4, 2, {2, 1});
  options.epoch = 5;
  Buffer buffer(options);
  EXPECT_EQ(buffer.checkpoint().epoch, 5u);
}

TEST(Buffer, SaysWhenUpstreamEndsOtherwiseThanTheCheckpointSays) {
  const BufferOptions options = numbered(8, 4, {2, 1});
  Buffer whole(options);
  const Epochs all = serve(whole, 20);
  const Checkpoint late = all.after[all.after.size() - 2];  // knows the length
  ASSERT_TRUE(late.total);
  const std::uint64_t first = oldest_record(late.sweep);
  for (const std::uint64_t n : {std::uint64_t{19}, std::uint64_t{21}}) {
    Buffer rest(options);
    ASSERT_TRUE(rest.restore(late));
    put_what_fits(rest, first, n);
    rest.close();
    EXPECT_TRUE(rest.ready());
    Ids ids;
    EXPECT_EQ(next(rest, ids), Status::kShort);
  }
}

TEST(Buffer, LeavesBatchesAloneThatTheCallerHolds) {
  BufferOptions options = numbered(8, 4, {2, 1});
  auto buffer = std::make_unique<Buffer>(options);
  put_what_fits(*buffer, 0, 12);
  std::vector<Batch> held(4);
  std::vector<Ids> before;
  for (Batch& batch : held) {
    ASSERT_EQ(buffer->next(batch, far_off()), Status::kOk);
    before.push_back(ids_of(batch));
  }
  std::memset(held[0].block.data(), 0, 32);
  serve(*buffer, 40, 12);
  buffer->reset(1);
  serve(*buffer, 40);
  buffer.reset();
  for (std::size_t i = 1; i < held.size(); ++i) EXPECT_EQ(ids_of(held[i]), before[i]);
}

TEST(Buffer, CountsWhatWasPutWhenCutShort) {
  const BufferOptions options = numbered(8, 4, {2, 1});
  {
    Buffer buffer(options);
    const Ids ids = range(0, 100);
    const SourceLeaf leaf = leaf_of(ids);
    std::uint64_t done = 0;
    const Deadline soon = Clock::now() + std::chrono::milliseconds(5);
    EXPECT_EQ(buffer.put(buffer.term(), &leaf, 100, 0, done, soon, nullptr),
              Status::kTimeout);
    EXPECT_EQ(done, 12u) << "the ring's capacity";
    EXPECT_EQ(done, buffer.stats().fresh);
  }
  for (int round = 0; round < 200; ++round) {
    Buffer buffer(options);
    const Ids ids = range(0, 100);
    const SourceLeaf leaf = leaf_of(ids);
    std::uint64_t done = 0;
    Status status = Status::kOk;
    Threads producer;
    producer.start([&] {
      status = buffer.put(buffer.term(), &leaf, 100, 0, done, far_off(), nullptr);
    });
    Ids batch;
    for (int i = 0; i < round % 4; ++i) ASSERT_EQ(next(buffer, batch), Status::kOk);
    buffer.close();
    producer.join();
    ASSERT_EQ(status, Status::kClosed);
    ASSERT_EQ(done, buffer.stats().fresh);
    std::uint64_t drawn = static_cast<std::uint64_t>(round % 4) * 4;
    while (next(buffer, batch) == Status::kOk) drawn += batch.size();
    ASSERT_EQ(drawn, 2 * done) << "those that were put are served";
  }
}

TEST(Buffer, HoldsNoMoreThanWasPutWhileMoreIsPut) {
  constexpr std::uint64_t kExamples = 4000;
  Buffer buffer(numbered(kExamples, 1, {1, 1}));
  for (std::uint64_t round = 1; round <= 30; ++round) {
    Threads producer;
    producer.start([&] {
      for (std::uint64_t i = 0; i < kExamples; ++i) put_what_fits(buffer, i, i + 1);
    });
    BufferStats stats;
    while (stats.fresh < kExamples) {
      stats = buffer.stats();
      ASSERT_LE(stats.resident, stats.fresh) << "round " << round;
    }
    producer.join();
    buffer.reset(round);
  }
}

TEST(Buffer, TimesOutAtItsDeadline) {
  for (const std::uint32_t prefetch : {0u, 1u}) {
    BufferOptions options = numbered(8, 4, {2, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    Ids ids;
    EXPECT_EQ(next(buffer, ids, kAtOnce), Status::kTimeout);
    const Deadline soon = Clock::now() + std::chrono::milliseconds(3);
    EXPECT_EQ(next(buffer, ids, soon), Status::kTimeout);
    EXPECT_GE(Clock::now(), soon);
    EXPECT_FALSE(buffer.ready());
    EXPECT_GT(buffer.stats().next_wait_s, 0.0);
    put_what_fits(buffer, 0, 4);
    EXPECT_EQ(next(buffer, ids), Status::kOk) << "and goes on";
  }
}

/// Threads that wait in put() and next() while `end` is called come back as they
/// should.
template <class End>
void expect_waiters_end(std::uint32_t prefetch, bool full, Status expected, End end) {
  for (int round = 0; round < 100; ++round) {
    BufferOptions options = numbered(8, 4, {2, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    if (full) put_what_fits(buffer, 0, 100);
    std::atomic<int> right{0};
    std::atomic<int> there{0};
    Threads threads;
    for (int t = 0; t < 2; ++t)
      threads.start([&] {
        ++there;
        Ids ids;
        const Status status = full ? put(buffer, {1, 2, 3}) : next(buffer, ids);
        right += status == expected;
      });
    while (there < 2) std::this_thread::yield();
    if (round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end(buffer);
    threads.join();
    ASSERT_EQ(right, 2) << "round " << round;
  }
}

TEST(Buffer, EndsWaitsOnShutDown) {
  const auto end = [](Buffer& buffer) { buffer.shut_down(); };
  for (const std::uint32_t prefetch : {0u, 2u}) {
    expect_waiters_end(prefetch, false, Status::kClosed, end);
    expect_waiters_end(0, true, Status::kClosed, end);
  }
}

TEST(Buffer, EndsWaitsOnFail) {
  const auto end = [](Buffer& buffer) { buffer.fail(); };
  for (const std::uint32_t prefetch : {0u, 2u})
    expect_waiters_end(prefetch, false, Status::kFailed, end);
  expect_waiters_end(0, true, Status::kClosed, end);
}

TEST(Buffer, EndsWaitsOnClose) {
  const auto end = [](Buffer& buffer) { buffer.close(); };
  for (const std::uint32_t prefetch : {0u, 2u})
    expect_waiters_end(prefetch, false, Status::kFinished, end);
  expect_waiters_end(0, true, Status::kClosed, end);
}

TEST(Buffer, SaysClosedAfterShutDown) {
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered(8, 4, {2, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    put_what_fits(buffer, 0, 8);
    buffer.shut_down();
    Ids ids;
    EXPECT_EQ(next(buffer, ids), Status::kClosed);
    EXPECT_EQ(put(buffer, {1}), Status::kClosed);
    buffer.reset(1);
    EXPECT_EQ(next(buffer, ids), Status::kClosed);
    EXPECT_EQ(put(buffer, {1}), Status::kClosed);
    buffer.shut_down();
  }
}

// ---- races between the calls of a buffer's life

TEST(Buffer, WakesTheConsumerWhenThePutInFlightAtCloseIsDone) {
  // A record so large that close() comes while it is being copied.
  const std::size_t bytes = std::size_t{24} << 20;
  BufferOptions options;
  options.fields = {{bytes, 1}};
  options.window = 2;
  options.batch_size = 2;
  const std::vector<std::byte> example(bytes, std::byte{5});
  for (int round = 0; round < 3; ++round) {
    Buffer buffer(options);
    Status status = Status::kTimeout;
    Threads threads;
    threads.start([&] {
      Batch batch;
      status = promptly([&](Deadline d) { return buffer.next(batch, d); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    threads.start([&] {
      const SourceLeaf leaf{example.data(), 0};
      std::uint64_t done = 0;
      buffer.put(buffer.term(), &leaf, 1, 0, done, far_off(), nullptr);
    });
    while (buffer.stats().fresh == 0) std::this_thread::yield();
    buffer.close();
    threads.join();
    ASSERT_EQ(status, Status::kOk);
  }
}

TEST(Buffer, LosesNoWakeUpBetweenTwoConsumers) {
  // Three examples a round, two for one consumer and one for the other. Each must get
  // its own before the next round begins, so a sleeper that is forgotten shows.
  constexpr int kRounds = 4000;
  Buffer buffer(numbered(1, 1, {1, 1}));
  EventCount event;
  std::atomic<int> got{0};
  const auto reached = [&](int count) {
    while (got.load() < count) {
      const std::uint32_t key = event.prepare();
      if (got.load() < count) event.wait(key, far_off());
    }
  };
  Threads threads;
  for (int t = 0; t < 2; ++t)
    threads.start([&, t] {
      for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
        for (int take = 0; take <= (round + t) % 2; ++take) {
          Ids ids;
          EXPECT_EQ(next(buffer, ids), Status::kOk);
          ++got;
          event.notify();
        }
        reached(3 * (round + 1));
      }
    });
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(put(buffer, {i}), Status::kOk);
    reached(3 * (round + 1));
  }
}

TEST(Buffer, MayBeShutDownFromSeveralThreadsAtOnce) {
  for (int round = 0; round < 200; ++round) {
    BufferOptions options = numbered(8, 4, {2, 1});
    options.prefetch = 1;
    Buffer buffer(options);
    Threads threads;
    for (int t = 0; t < 2; ++t) threads.start([&] { buffer.shut_down(); });
    threads.join();
  }
}

}  // namespace
