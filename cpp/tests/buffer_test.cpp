#include "echobuf/buffer/buffer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
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

}  // namespace
