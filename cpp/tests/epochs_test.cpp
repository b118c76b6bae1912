// The changes between two epochs of a buffer: resets, and epochs opened ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

/// Returns what another buffer draws in an epoch of n examples.
Ids drawn_alone(const BufferOptions& options, std::uint64_t n, std::uint64_t epoch) {
  Buffer buffer(options);
  buffer.reset(epoch);
  return joined(serve(buffer, n).batches);
}

// ---- resets

TEST(Epochs, KnowsAPutThatBeganBeforeAReset) {
  Buffer buffer(numbered(8, 4, {2, 1}));
  const std::uint64_t old = buffer.term();
  buffer.reset(1);
  const Ids ids{1, 2};
  const SourceLeaf leaf = leaf_of(ids);
  std::uint64_t done = 0;
  EXPECT_EQ(buffer.put(old, &leaf, 2, 0, done, far_off(), nullptr), Status::kClosed);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(buffer.put(old, &leaf, 0, 0, done, far_off(), nullptr), Status::kClosed);
  EXPECT_EQ(put(buffer, ids), Status::kOk);
}

TEST(Epochs, MayBeResetFromSeveralThreadsAtOnce) {
  // Each example is the term in which it was put, so one in a later epoch shows.
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered(4096, 64, {1, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    for (std::uint64_t round = 0; round < rounds(150); ++round) {
      std::atomic<bool> stop{false};
      Threads producer, resetters;
      producer.start([&] {
        while (!stop) {
          const std::uint64_t term = buffer.term();
          const Ids ids(3, term);
          const SourceLeaf leaf = leaf_of(ids);
          std::uint64_t done = 0;
          buffer.put(term, &leaf, 3, 0, done, kAtOnce, nullptr);
        }
      });
      for (std::uint64_t r = 0; r < 2; ++r)
        resetters.start([&, r] { buffer.reset(2 * round + r); });
      resetters.join();
      stop = true;
      producer.join();
      buffer.close();
      const std::uint64_t n = buffer.stats().fresh;
      Ids ids, all;
      while (next(buffer, ids) == Status::kOk)
        all.insert(all.end(), ids.begin(), ids.end());
      const std::uint64_t term = buffer.term();
      ASSERT_EQ(all.size(), n);
      ASSERT_EQ(std::count(all.begin(), all.end(), term), static_cast<long>(n))
          << "an epoch holds another one's examples";
      buffer.reset(0);
    }
  }
}

TEST(Epochs, StaysDownWhenShutDownDuringAReset) {
  for (int round = 0; round < 400; ++round) {
    Buffer buffer(numbered(8, 4, {2, 1}));
    std::atomic<std::uint64_t> resets{0};
    Threads threads;
    threads.start([&] {
      while (!buffer.is_down()) buffer.reset(++resets);
    });
    while (resets < static_cast<std::uint64_t>(round % 20)) std::this_thread::yield();
    buffer.shut_down();
    threads.join();
    ASSERT_EQ(put(buffer, {1}), Status::kClosed) << "round " << round;
  }
}

TEST(Epochs, ForgetsBatchesHandedOutBeforeAReset) {
  // A batch taken just before a reset belongs to the old epoch, so a checkpoint of the
  // new one must not count it.
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered(1024, 1, {4, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    std::atomic<bool> stop{false};
    Threads others;
    for (int t = 0; t < 2; ++t)
      others.start([&] {
        Ids ids;
        while (!stop)
          if (next(buffer, ids, kAtOnce) != Status::kOk) std::this_thread::yield();
      });
    const Ids some = range(0, 256);
    std::uint64_t served = 0;
    for (std::uint64_t epoch = 0; epoch < rounds(200) && served == 0; ++epoch) {
      EXPECT_EQ(put(buffer, some), Status::kOk);
      for (std::uint64_t i = 0; i < epoch % 20; ++i) std::this_thread::yield();
      buffer.reset(epoch);
      // Nothing has been put since, so nothing can have been served.
      for (int look = 0; look < 50; ++look) served += buffer.stats().served;
    }
    stop = true;
    others.join();
    EXPECT_EQ(served, 0u);
  }
}

// ---- epochs opened ahead

/// Serves `epochs` epochs on this thread alone, each opened ahead of the one before, as
/// soon as that drains. What was drawn in each.
template <class Length>
std::vector<Ids> serve_overlapping(Buffer& buffer, std::uint64_t epochs,
                                   Length length) {
  std::vector<Ids> draws(1);
  std::uint64_t putting = 0;
  std::uint64_t fresh = 0;
  while (draws.size() <= epochs) {
    const std::uint64_t drawing = draws.size() - 1;
    if (fresh < length(putting)) {
      fresh = put_what_fits(buffer, fresh, length(putting));
      if (fresh == length(putting)) buffer.close();
    }
    if (putting == drawing && buffer.draining() && buffer.open_ahead(putting + 1)) {
      EXPECT_FALSE(buffer.open_ahead(putting + 1)) << "one at a time";
      ++putting;
      fresh = 0;
      continue;
    }
    Ids ids;
    const Status status =
        next(buffer, ids, Clock::now() + std::chrono::milliseconds(1));
    if (status == Status::kOk)
      draws.back().insert(draws.back().end(), ids.begin(), ids.end());
    if (status != Status::kFinished) continue;
    EXPECT_EQ(buffer.stats().fresh, length(drawing)) << "of this epoch alone";
    EXPECT_TRUE(buffer.checkpoint().epoch_done);
    EXPECT_EQ(buffer.checkpoint().epoch, drawing);
    EXPECT_TRUE(buffer.go_ahead());
    EXPECT_FALSE(buffer.go_ahead());
    EXPECT_EQ(buffer.stats().served, 0u);
    draws.emplace_back();
  }
  draws.pop_back();
  return draws;
}

TEST(Epochs, OpenedAheadServeWhatTheyServeWithoutThat) {
  for (BufferOptions options : kFixed)
    for (const std::uint32_t prefetch : {0u, 2u}) {
      options.prefetch = prefetch;
      SCOPED_TRACE(name_of(options));
      Buffer buffer(options);
      const auto length = [&](std::uint64_t epoch) {
        return 1 + (epoch % 4) * options.window / 2 + epoch;
      };
      const std::vector<Ids> draws = serve_overlapping(buffer, 9, length);
      for (std::uint64_t epoch = 0; epoch < draws.size(); ++epoch)
        ASSERT_EQ(draws[epoch], drawn_alone(options, length(epoch), epoch));
    }
}

TEST(Epochs, OpenedAheadServeEverythingIfAutomatic) {
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered_auto(32, 4, 3);
    options.prefetch = prefetch;
    Buffer buffer(options);
    const auto length = [](std::uint64_t epoch) { return 70 + epoch; };
    const std::vector<Ids> draws = serve_overlapping(buffer, 9, length);
    for (std::uint64_t epoch = 0; epoch < draws.size(); ++epoch)
      for (const std::uint64_t times : uses(draws[epoch], length(epoch))) {
        ASSERT_GE(times, 1u);
        ASSERT_LE(times, 3u);
      }
  }
}

TEST(Epochs, AreNotOpenedAheadOfAnUpstreamThatGoesOnOrFailed) {
  Buffer buffer(numbered(8, 4, {2, 1}));
  put_what_fits(buffer, 0, 4);
  EXPECT_FALSE(buffer.draining());
  EXPECT_FALSE(buffer.open_ahead(1));
  EXPECT_FALSE(buffer.go_ahead());
  buffer.fail();
  EXPECT_FALSE(buffer.draining());
  EXPECT_FALSE(buffer.open_ahead(1));
  buffer.shut_down();
  EXPECT_FALSE(buffer.open_ahead(1));
}

TEST(Epochs, OpenedAheadKeepTheirFailureToThemselves) {
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered(8, 4, {2, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    put_what_fits(buffer, 0, 8);
    buffer.close();
    ASSERT_TRUE(buffer.open_ahead(1));
    put_what_fits(buffer, 0, 1);
    buffer.fail();
    Ids ids, all;
    Status status = Status::kOk;
    while ((status = next(buffer, ids)) == Status::kOk)
      all.insert(all.end(), ids.begin(), ids.end());
    EXPECT_EQ(status, Status::kFinished);
    EXPECT_EQ(all, drawn_alone(options, 8, 0));
    EXPECT_TRUE(buffer.checkpoint().epoch_done);
    ASSERT_TRUE(buffer.go_ahead());
    EXPECT_EQ(next(buffer, ids), Status::kFailed);
    buffer.reset(2);
    EXPECT_EQ(joined(serve(buffer, 20).batches), drawn_alone(options, 20, 2));
  }
}

TEST(Epochs, OpenedAheadAreGoneAfterAReset) {
  for (BufferOptions options : {numbered(8, 4, {2, 1}), numbered_auto(8, 4)}) {
    Buffer buffer(options);
    put_what_fits(buffer, 0, 8);
    buffer.close();
    ASSERT_TRUE(buffer.open_ahead(1));
    put_what_fits(buffer, 100, 103);
    buffer.reset(3);
    EXPECT_FALSE(buffer.go_ahead());
    const Ids draws = joined(serve(buffer, 20).batches);
    for (const std::uint64_t times : uses(draws, 20)) EXPECT_GE(times, 1u);
  }
}

TEST(Epochs, OpenedAheadAreGoneOverToBetweenDraws) {
  // One producer, which begins epochs ahead, two consumers that draw, and one thread
  // that goes over at any time. Each example is its epoch, so a stray one shows.
  for (const std::uint32_t prefetch : {0u, 2u}) {
    BufferOptions options = numbered(64, 8, {2, 1});
    options.prefetch = prefetch;
    Buffer buffer(options);
    constexpr std::uint64_t kEpochs = rounds(1000);
    std::atomic<bool> stop{false};
    Threads threads;
    for (int t = 0; t < 2; ++t)
      threads.start([&] {
        Ids ids;
        std::uint64_t latest = 0;
        while (!stop) {
          if (next(buffer, ids, Clock::now() + std::chrono::milliseconds(1)) !=
              Status::kOk) {
            std::this_thread::yield();  // to the thread that begins another epoch
            continue;
          }
          EXPECT_EQ(std::count(ids.begin(), ids.end(), ids[0]),
                    static_cast<long>(ids.size()));
          EXPECT_GE(ids[0], latest);
          latest = ids[0];
        }
      });
    for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      ASSERT_EQ(put(buffer, Ids(40, epoch)), Status::kOk);
      buffer.close();
      ASSERT_TRUE(buffer.open_ahead(epoch + 1));
      put_what_fits(buffer, epoch + 1, epoch + 2);
      if (epoch % 2)
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
      ASSERT_TRUE(buffer.go_ahead());
    }
    stop = true;
    threads.join();
  }
}

}  // namespace
