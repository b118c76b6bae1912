#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/draw/host_drawer.hpp"
#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace {

using echobuf::Batch;
using echobuf::BatchLayout;
using echobuf::BatchPool;
using echobuf::BufferOptions;
using echobuf::Epoch;
using echobuf::HostStore;
using echobuf::Poll;
using echobuf::RecordLayout;
using echobuf::Ring;
using echobuf::Target;
using echobuf::test::Ids;
using echobuf::test::numbered;
using echobuf::test::numbered_auto;
using Drawer = echobuf::HostDrawer;
using Outcome = echobuf::DrawOutcome;

/// A drawer with its ring and store, and this thread for a producer.
struct Bench {
  explicit Bench(BufferOptions opts)
      : options(std::move(opts)),
        ring(ring_capacity(options)),
        store(RecordLayout(options.fields), ring.capacity()),
        layout(store.layout(), options.leaves, options.batch_size),
        pool(std::make_shared<BatchPool>(layout.bytes(), 2)),
        drawer(options, ring, store, layout, pool) {}

  /// Claims one record and writes it, or says that there is no room.
  std::optional<std::uint64_t> claim(std::uint64_t id) {
    const Ring::Claim claim = ring.claim(1, ring.term());
    if (claim.count == 0) return std::nullopt;
    const Ids ids{id};
    const echobuf::SourceLeaf leaf = echobuf::test::leaf_of(ids);
    store.write(claim.first, 1, &leaf, 0, 0);
    return claim.first;
  }
  bool put(std::uint64_t id) {
    const auto position = claim(id);
    if (position) ring.commit(*position, 1);
    return position.has_value();
  }
  std::uint64_t put_what_fits(std::uint64_t first, std::uint64_t end) {
    while (first < end && put(first)) ++first;
    return first;
  }

  Outcome draw(Ids& ids, Poll* poll = nullptr) {
    Batch batch;
    const Outcome outcome = drawer.draw(batch, poll);
    if (outcome != Outcome::kBatch) return outcome;
    ids.resize(batch.count);
    std::memcpy(ids.data(), batch.block.data(), batch.count * sizeof(std::uint64_t));
    return outcome;
  }

  const BufferOptions options;
  Ring ring;
  HostStore store;
  const BatchLayout layout;
  const std::shared_ptr<BatchPool> pool;
  Drawer drawer;
};

const std::vector<BufferOptions> kDrawn = {
    numbered(12, 4, {2, 1}), numbered(12, 5, {3, 1}), numbered(12, 7, {5, 2}),
    numbered(1, 1, {1, 1}),  numbered_auto(12, 4),    numbered_auto(50, 7, 2)};

TEST(Drawer, IsReadyExactlyWhenADrawDoesNotWait) {
  for (const BufferOptions& options : kDrawn)
    for (const std::uint64_t n : {0u, 1u, 11u, 100u}) {
      Bench bench(options);
      Ids ids, all;
      std::uint64_t fresh = 0;
      Outcome outcome = Outcome::kWait;
      if (n == 0) bench.ring.close();
      while (outcome != Outcome::kFinished) {
        const bool ready = bench.drawer.ready();
        outcome = bench.draw(ids);
        ASSERT_EQ(ready, outcome != Outcome::kWait);
        if (outcome == Outcome::kBatch) all.insert(all.end(), ids.begin(), ids.end());
        if (outcome != Outcome::kWait) continue;
        ASSERT_LT(fresh, n);
        ASSERT_GE(bench.drawer.wanted(), fresh) << "wants what is there";
        ASSERT_TRUE(bench.put(fresh)) << "producer and consumer wait for each other";
        if (++fresh == n) bench.ring.close();
      }
      if (n > 0) {
        ASSERT_EQ(*std::max_element(all.begin(), all.end()), n - 1);
      }
    }
}

TEST(Drawer, WantsThePositionWithoutWhichNothingHappens) {
  for (const BufferOptions& options : kDrawn) {
    Bench bench(options);
    Ids ids;
    std::uint64_t fresh = 0;
    for (int round = 0; round < 40; ++round) {
      while (bench.draw(ids) == Outcome::kBatch) continue;
      const std::uint64_t wanted = bench.drawer.wanted();
      fresh = bench.put_what_fits(fresh, wanted);
      ASSERT_EQ(fresh, wanted) << "what is wanted must fit";
      ASSERT_FALSE(bench.drawer.ready());
      ASSERT_TRUE(bench.put(fresh++));
      if (bench.draw(ids) == Outcome::kWait) {
        ASSERT_GT(bench.drawer.wanted(), wanted);
      }
    }
  }
}

TEST(Drawer, WantsTheHoleOnceTheLastRecordIsThere) {
  Bench bench(numbered(8, 4, {2, 1}));
  Ids ids;
  std::vector<std::uint64_t> open;
  for (std::uint64_t id = 0; id < 4; ++id) open.push_back(*bench.claim(id));
  ASSERT_EQ(bench.draw(ids), Outcome::kWait);
  EXPECT_EQ(bench.drawer.wanted(), 3u);
  bench.ring.commit(3, 1);
  bench.ring.commit(0, 1);
  ASSERT_EQ(bench.draw(ids), Outcome::kWait);
  EXPECT_EQ(bench.drawer.wanted(), 1u);
}

TEST(Drawer, WantsWhatIsStillComingOnceUpstreamHasEnded) {
  // Claimed but not committed when close() came: its commit must wake the drawer, and
  // a commit wakes only those who want one of its positions.
  for (const BufferOptions& options : kDrawn) {
    Bench bench(options);
    Ids ids;
    const auto position = bench.claim(0);
    bench.ring.close();
    ASSERT_EQ(bench.draw(ids), Outcome::kWait);
    EXPECT_EQ(bench.drawer.wanted(), *position) << "sleeps over the end of upstream";
    bench.ring.commit(*position, 1);
    EXPECT_EQ(bench.draw(ids), Outcome::kBatch);
  }
}

TEST(Drawer, DrawsAllOfABatchOrNothingForAFixedFactor) {
  Bench bench(numbered(12, 5, {2, 1}));
  Ids ids;
  bench.put_what_fits(0, 6);
  ASSERT_EQ(bench.draw(ids), Outcome::kBatch);
  const std::uint64_t draws = std::get<0>(bench.drawer.sweep()).position().draws;
  ASSERT_EQ(bench.draw(ids), Outcome::kWait) << "needs the second segment";
  EXPECT_EQ(std::get<0>(bench.drawer.sweep()).position().draws, draws);
}

/// Says stop once, after some chunks.
struct StopAfter final : Poll {
  explicit StopAfter(int chunks) : left(chunks) {}
  bool go_on() override { return left-- != 0; }
  int left;
};

TEST(Drawer, LosesNothingWhenInterrupted) {
  for (const bool automatic : {false, true}) {
    BufferOptions options = automatic ? numbered_auto(8, 4, 2) : numbered(8, 4, {2, 1});
    options.fields = {{std::size_t{6} << 20, 1}};  // a poll every third record
    Bench calm(options), torn(options);
    Ids unused;
    std::vector<std::byte> example(std::size_t{6} << 20);
    for (Bench* bench : {&calm, &torn}) {
      for (std::uint64_t id = 0; id < 6; ++id) {
        const echobuf::Ring::Claim claim = bench->ring.claim(1, bench->ring.term());
        std::memcpy(example.data(), &id, sizeof id);
        const echobuf::SourceLeaf leaf{example.data(), 0};
        bench->store.write(claim.first, 1, &leaf, 0, 0);
        bench->ring.commit(claim.first, 1);
      }
      bench->ring.close();
    }
    int interrupted = 0;
    for (int i = 0; i < 4; ++i) {
      Batch one, two;
      const Outcome expected = calm.drawer.draw(one, nullptr);
      StopAfter poll(i % 2);
      Outcome outcome = torn.drawer.draw(two, &poll);
      if (outcome == Outcome::kInterrupted) {
        ++interrupted;
        EXPECT_FALSE(two.block);
        outcome = torn.drawer.draw(two, nullptr);
      }
      ASSERT_EQ(outcome, expected);
      ASSERT_EQ(two.count, one.count);
      for (std::uint64_t r = 0; r < one.count; ++r) {
        const std::size_t at = r * example.size();
        ASSERT_EQ(std::memcmp(one.block.data() + at, two.block.data() + at, 8), 0);
      }
    }
    EXPECT_GT(interrupted, 0);
  }
}

TEST(Drawer, IsReadyToSayThatUpstreamIsLongerThanTheStateSays) {
  Bench bench(numbered(4, 2, {1, 1}));
  Epoch epoch;
  epoch.total = 3;
  bench.drawer.restart(epoch);
  bench.put_what_fits(0, 4);
  Ids ids;
  ASSERT_EQ(bench.draw(ids), Outcome::kShort);
  EXPECT_TRUE(bench.drawer.ready()) << "a draw does not wait";
}

TEST(Drawer, GoesOnInTheOrderOfTheEpochThatItIsSetTo) {
  Bench other(numbered(12, 3, {2, 1})), moved(numbered(12, 3, {2, 1}));
  Epoch next;
  next.number = 1;
  other.drawer.restart(next);
  Ids expected, ids;
  for (Bench* bench : {&other, &moved}) {
    bench->put_what_fits(0, 12);
    ASSERT_EQ(bench->draw(ids), Outcome::kBatch);
  }
  moved.drawer.restore(next, other.drawer.sweep());
  ASSERT_EQ(other.draw(expected), Outcome::kBatch);
  ASSERT_EQ(moved.draw(ids), Outcome::kBatch);
  EXPECT_EQ(ids, expected);
}

TEST(Drawer, StartsAgainWhereTheRingIs) {
  Bench bench(numbered(6, 3, {2, 1}));
  Ids ids, first, second;
  for (Ids* drawn : {&first, &second}) {
    Epoch epoch;
    epoch.number = 4;
    epoch.base = bench.ring.tail();
    bench.drawer.restart(epoch);
    bench.ring.release(epoch.base);
    bench.put_what_fits(100, 107);
    bench.ring.close();
    while (bench.draw(ids) == Outcome::kBatch)
      drawn->insert(drawn->end(), ids.begin(), ids.end());
    bench.ring.reopen();
  }
  EXPECT_EQ(first.size(), 14u);
  EXPECT_EQ(first, second) << "the order is that of the epoch's number";
}

}  // namespace
