#include "echobuf/draw/prefetcher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::Prefetcher;
using echobuf::Status;
using echobuf::test::far_off;

/// The next item or end, or kTimeout if it never came.
Status take(Prefetcher<int>& prefetcher, int& item) {
  for (;;) {
    const std::uint32_t key = prefetcher.filled().prepare();
    const Status status = prefetcher.pop(item);
    if (status != Status::kTimeout) return status;
    const Deadline deadline = far_off();
    prefetcher.filled().wait(key, deadline);
    if (Clock::now() >= deadline) return Status::kTimeout;
  }
}

TEST(Prefetcher, GivesItemsInOrderAndKeepsTheEnd) {
  constexpr int kItems = 3000;
  int made = 0;
  Prefetcher<int> prefetcher(3, [&](int& item) {
    if (made == kItems) return Status::kFinished;
    item = made++;
    return Status::kOk;
  });
  int item = -1;
  for (int i = 0; i < kItems; ++i) {
    ASSERT_EQ(take(prefetcher, item), Status::kOk);
    ASSERT_EQ(item, i);
  }
  for (int i = 0; i < 3; ++i) ASSERT_EQ(take(prefetcher, item), Status::kFinished);
  EXPECT_TRUE(prefetcher.ready());
}

TEST(Prefetcher, MakesNoMoreThanItsDepthAhead) {
  std::atomic<int> made{0};
  Prefetcher<int> prefetcher(2, [&](int& item) {
    item = made.fetch_add(1);
    return Status::kOk;
  });
  for (int i = 0, item = 0; i < 500; ++i) {
    ASSERT_EQ(take(prefetcher, item), Status::kOk);
    ASSERT_LE(made.load(), i + 1 + 2 + 1) << "taken, ready, and one being made";
  }
}

TEST(Prefetcher, AsksAgainAfterATimeout) {
  int asked = 0;
  Prefetcher<int> prefetcher(1, [&](int& item) {
    item = ++asked;
    return asked % 5 == 0 ? Status::kOk : Status::kTimeout;
  });
  int item = 0;
  ASSERT_EQ(take(prefetcher, item), Status::kOk);
  EXPECT_EQ(item, 5);
}

TEST(Prefetcher, SaysOnceThatThereIsNoMemoryAndTriesAgain) {
  int asked = 0;
  Prefetcher<int> prefetcher(2, [&](int& item) {
    item = asked++ / 2;
    if (asked % 2 == 1) throw std::bad_alloc();
    return Status::kOk;
  });
  for (int i = 0; i < 500; ++i) {
    int item = -1;
    ASSERT_EQ(take(prefetcher, item), Status::kNoMemory);
    ASSERT_FALSE(prefetcher.ready()) << "it is asked for first";
    ASSERT_EQ(take(prefetcher, item), Status::kOk);
    ASSERT_EQ(item, i) << "the failure cost an item";
  }
}

TEST(Prefetcher, MakesNothingBetweenPauseAndRestart) {
  int epoch = 0;  // plain: ThreadSanitizer checks that `make` is not running
  Prefetcher<int> prefetcher(2, [&](int& item) {
    item = epoch;
    return epoch % 3 == 2 ? Status::kFinished : Status::kOk;
  });
  for (int i = 0; i < 500; ++i) {
    int item = -1;
    const Status status = take(prefetcher, item);
    if (i % 3 == 2) {
      ASSERT_EQ(status, Status::kFinished);
    } else {
      ASSERT_EQ(status, Status::kOk);
      ASSERT_EQ(item, i) << "an item from before the pause";
    }
    prefetcher.pause();
    EXPECT_FALSE(prefetcher.ready());
    epoch = i + 1;
    prefetcher.restart();
  }
}

TEST(Prefetcher, StopsInAnyState) {
  for (int i = 0; i < 100; ++i) {
    Prefetcher<int> prefetcher(1, [&](int& item) {
      item = i;
      return i % 3 == 0 ? Status::kTimeout : i % 3 == 1 ? Status::kOk : Status::kFailed;
    });
    if (i % 2 == 0) prefetcher.pause();
    prefetcher.stop();
    prefetcher.stop();
  }
}

}  // namespace
