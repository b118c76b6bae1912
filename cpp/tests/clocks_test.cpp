#include "echobuf/sync/clocks.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;

constexpr std::int64_t kMs = 1'000'000;

TEST(WaitClock, SumsOverThreadsAndCountsWhoIsIn) {
  WaitClock clock;
  const Deadline now = Clock::now();
  EXPECT_EQ(clock.total(), 0);
  EXPECT_EQ(clock.peak(), 1u);
  clock.enter(now - milliseconds(90));
  clock.enter(now - milliseconds(60));
  EXPECT_GE(clock.total(), 150 * kMs) << "both are in";
  EXPECT_EQ(clock.peak(), 2u);
  EXPECT_TRUE(clock.leave(now - milliseconds(50)));
  EXPECT_TRUE(clock.leave(now - milliseconds(10)));
  EXPECT_EQ(clock.total(), 90 * kMs) << "whoever left first: nobody is in any more";
  EXPECT_EQ(clock.wall(), 45 * kMs);
  EXPECT_FALSE(clock.leave(now));
  EXPECT_EQ(clock.total(), 90 * kMs) << "who was not in has not left";
}

TEST(WaitClock, RestartKeepsWhoIsInAndForgetDoesNot) {
  WaitClock clock;
  const Deadline now = Clock::now();
  clock.enter(now - milliseconds(90));
  clock.enter(now - milliseconds(90));
  clock.restart(now - milliseconds(30));
  clock.leave(now - milliseconds(20));
  clock.leave(now - milliseconds(10));
  EXPECT_EQ(clock.total(), 30 * kMs) << "10 and 20 since the restart";
  EXPECT_EQ(clock.peak(), 2u);
  clock.enter(now);
  clock.forget();
  EXPECT_FALSE(clock.leave(now));
  EXPECT_EQ(clock.total(), 0);
  EXPECT_EQ(clock.peak(), 1u);
}

TEST(WaitClock, LosesNothingAmongThreads) {
  WaitClock clock;
  const Deadline now = Clock::now();
  constexpr std::int64_t kRounds = 20'000;
  {
    Threads threads;
    for (int t = 0; t < 3; ++t)
      threads.start([&] {
        for (std::int64_t i = 0; i < kRounds; ++i) {
          clock.enter(now - milliseconds(3));
          EXPECT_TRUE(clock.leave(now - milliseconds(2)));
          EXPECT_GE(clock.total(), 0);
        }
      });
  }
  EXPECT_EQ(clock.total(), 3 * kRounds * kMs);
  EXPECT_LE(clock.peak(), 3u);
}

TEST(WaitClock, NeverSaysLessThanNothing) {
  WaitClock clock;
  clock.enter(Clock::now() + std::chrono::hours(1));  // by a clock ahead of ours
  EXPECT_EQ(clock.total(), 0);
}

/// So long from now on, all of which is a wait.
WaitLimit waiting(milliseconds time) {
  const Deadline now = Clock::now();
  return {now + time, now};
}

/// A buffer of which the consumer takes nothing is full after 12.
BufferOptions small() { return numbered(8, 4, {2, 1}); }

TEST(SideClocks, CountAWaitThatWasOverBeforeTheCall) {
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = small();
    options.prefetch = prefetch;
    Buffer buffer(options);
    const Deadline now = Clock::now();
    const WaitLimit spent(now, now - milliseconds(40));
    Batch batch;
    EXPECT_EQ(buffer.next(batch, spent), Status::kTimeout);
    EXPECT_GE(buffer.stats().next_wait_s, 0.040);
    put_what_fits(buffer, 0, 12);
    EXPECT_EQ(buffer.stats().put_wait_s, 0.0) << "who only looks does not wait";
    const Ids more = range(12, 1000);
    const SourceLeaf leaf = leaf_of(more);
    std::uint64_t done = 0;
    EXPECT_EQ(buffer.put(buffer.term(), &leaf, more.size(), 0, done, spent, nullptr),
              Status::kTimeout);
    EXPECT_GE(buffer.stats().put_wait_s, 0.040);
  }
}

TEST(SideClocks, KeepAnEpochApartFromTheOneOpenedAhead) {
  BufferOptions options = small();
  options.factor = {1, 1};
  Buffer buffer(options);
  put_what_fits(buffer, 0, 4);
  std::this_thread::sleep_for(milliseconds(10));
  put_what_fits(buffer, 4, 8);
  Ids ids;
  ASSERT_EQ(next(buffer, ids), Status::kOk);
  buffer.close();
  const BufferStats ended = buffer.stats();
  EXPECT_GE(ended.t_upstream_s, 0.010 / 4);
  ASSERT_TRUE(buffer.open_ahead(1));
  ASSERT_FALSE(buffer.open_ahead(2)) << "one at a time";
  put_what_fits(buffer, 0, 2);
  put_what_fits(buffer, 2, 4);
  const Ids all = range(4, 40);
  const SourceLeaf leaf = leaf_of(all);
  std::uint64_t done = 0;
  EXPECT_EQ(buffer.put(buffer.term(), &leaf, all.size(), 0, done,
                       waiting(milliseconds(5)), nullptr),
            Status::kTimeout);
  EXPECT_EQ(buffer.stats().t_upstream_s, ended.t_upstream_s);
  EXPECT_EQ(buffer.stats().put_wait_s, ended.put_wait_s);
  EXPECT_EQ(buffer.stats().fresh, 8u);
  ASSERT_TRUE(buffer.go_ahead());
  const BufferStats next_epoch = buffer.stats();
  EXPECT_GE(next_epoch.put_wait_s, 0.005) << "it waited before its turn came";
  EXPECT_EQ(next_epoch.fresh, 4 + done);
  EXPECT_GE(next_epoch.t_upstream_s, 0.0);
  EXPECT_TRUE(std::isnan(next_epoch.t_downstream_s));
}

TEST(SideClocks, DivideByWhatCameSinceACheckpointWasLoaded) {
  const BufferOptions options = small();
  Buffer whole(options);
  const Epochs all = serve(whole, 40);
  const Checkpoint point = all.after[all.after.size() / 2];
  Buffer rest(options);
  ASSERT_TRUE(rest.restore(point));
  EXPECT_TRUE(std::isnan(rest.stats().t_upstream_s));
  const std::uint64_t first = point.fresh_offset();
  put_what_fits(rest, first, first + 4);
  std::this_thread::sleep_for(milliseconds(8));
  put_what_fits(rest, first + 4, first + 8);
  rest.close();
  EXPECT_GE(rest.stats().t_upstream_s, 0.008 / 4) << "four, however many came before";
  Ids ids;
  ASSERT_EQ(next(rest, ids), Status::kOk);
  std::this_thread::sleep_for(milliseconds(8));
  static_cast<void>(next(rest, ids, kAtOnce));
  EXPECT_GE(rest.stats().t_downstream_s, 0.008 / 8);
}

}  // namespace
