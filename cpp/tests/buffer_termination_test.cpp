#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

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
  constexpr int kRounds = rounds(4000);
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
