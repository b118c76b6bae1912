#include "echobuf/sync/outstanding_claims.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "echobuf/buffer/buffer.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;

constexpr std::int64_t kSecond = 1'000'000'000;

Deadline a_while_ago() { return Clock::now() - milliseconds(1000); }

template <class Condition>
bool comes_true(Condition&& condition) {
  const Deadline end = far_off();
  while (!condition())
    if (Clock::now() > end) return false;
  return true;
}

TEST(OutstandingClaims, AWaitCountsWhileNobodyWrites) {
  WaitClock waits;
  OutstandingClaims outstanding(waits);
  { const OutstandingClaims::Wait wait(outstanding, a_while_ago()); }
  EXPECT_GE(waits.total(), kSecond);
  waits.restart(Clock::now());
  outstanding.add(2);
  { const OutstandingClaims::Wait wait(outstanding, a_while_ago()); }
  outstanding.take_off(1);
  { const OutstandingClaims::Wait wait(outstanding, a_while_ago()); }
  EXPECT_EQ(waits.total(), 0);
  EXPECT_EQ(outstanding.count(), 1u);
}

TEST(OutstandingClaims, TheLastOneToBeWrittenBeginsIt) {
  WaitClock waits;
  OutstandingClaims outstanding(waits);
  outstanding.add(3);
  auto wait = std::make_unique<OutstandingClaims::Wait>(outstanding, a_while_ago());
  outstanding.take_off(2);
  EXPECT_EQ(waits.total(), 0);
  const Deadline before = Clock::now();
  outstanding.take_off(1);
  EXPECT_TRUE(comes_true([&] { return waits.total() > 0; }));
  wait.reset();
  const std::int64_t total = waits.total();
  EXPECT_GT(total, 0);
  EXPECT_LE(total, ns_of(Clock::now()) - ns_of(before));
  EXPECT_EQ(waits.total(), total) << "it is over";
}

TEST(OutstandingClaims, AThreadThatGoesOnEndsTheWaitOfAll) {
  WaitClock waits;
  OutstandingClaims outstanding(waits);
  const OutstandingClaims::Wait wait(outstanding, Clock::now());
  { const OutstandingClaims::Wait other(outstanding, Clock::now()); }
  outstanding.add(1);
  const std::int64_t total = waits.total();
  EXPECT_EQ(waits.total(), total);
  EXPECT_EQ(waits.peak(), 1u) << "they wait for the same";
  outstanding.take_off(1);
  EXPECT_TRUE(comes_true([&] { return waits.total() > total; }));
}

TEST(OutstandingClaims, LeavesNoThreadWaiting) {
  WaitClock waits;
  OutstandingClaims outstanding(waits);
  {
    Threads threads;
    for (int t = 0; t < 2; ++t)
      threads.start([&] {
        for (int i = 0; i < 20'000; ++i) {
          outstanding.add(1);
          outstanding.take_off(1);
        }
      });
    threads.start([&] {
      for (int i = 0; i < 20'000; ++i)
        const OutstandingClaims::Wait wait(outstanding, Clock::now());
    });
  }
  const std::int64_t total = waits.total();
  EXPECT_FALSE(waits.leave(Clock::now())) << "somebody is in";
  EXPECT_EQ(waits.total(), total);
  const OutstandingClaims::Wait wait(outstanding, Clock::now());
  EXPECT_TRUE(waits.leave(Clock::now())) << "none outstanding: it counts";
  waits.enter(Clock::now());
}

TEST(OutstandingClaims, RoomThatIsWaitedForWhileOthersWriteIsNotUpstreamsWait) {
  BufferOptions options = numbered(16, 4, {1, 1});
  options.shared = true;
  Buffer buffer(options);
  std::uint64_t first = 0;
  std::uint64_t count = 1000;
  ASSERT_EQ(buffer.claim(buffer.term(), first, count, kAtOnce), Status::kOk);
  const auto wait = [&] {
    std::uint64_t next = 0;
    std::uint64_t one = 1;
    return buffer.claim(buffer.term(), next, one, Clock::now() + milliseconds(20));
  };
  EXPECT_EQ(wait(), Status::kTimeout);
  EXPECT_EQ(buffer.stats().put_wait_s, 0);
  for (std::uint64_t i = 0; i < count; ++i) buffer.commit(first + i, 1);
  EXPECT_TRUE(comes_true([&] {
    EXPECT_EQ(wait(), Status::kTimeout);
    return buffer.stats().put_wait_s > 0;
  }));
}

}  // namespace
