// How an epoch of a server ends: whole, cut short by a failure, or taken back.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/shared/shared_ring.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "serve_support.hpp"

namespace echobuf::serve::test {
namespace {

/// Workers of a ring, as threads with mappings of their own.
class PooledThreads {
 public:
  explicit PooledThreads(std::shared_ptr<SharedRing> ring)
      : ring_(std::move(ring)),
        pool_(std::make_unique<RecordSinkOf<SharedRing>>(ring_), kWorkers, 16) {
    for (std::uint64_t number = 0; number < kWorkers; ++number)
      threads_.start([this, number] { work(number); });
  }
  ~PooledThreads() {
    pool_.close();
    threads_.join();
  }

  /// Gives out `from` ... n-1 of an epoch, until the term ends; then, as the feeding
  /// thread of a loader does, takes back what is not wanted once somebody said so.
  void feed(std::uint64_t epoch, std::uint64_t from, std::uint64_t n) {
    const std::uint64_t term = ring_->term();
    std::vector<std::int64_t> values;
    for (std::uint64_t i = from; i < n; ++i)
      values.push_back(static_cast<std::int64_t>(epoch << 32 | i));
    pool_.begin(term, std::nullopt);
    std::uint64_t submitted = 0;
    pool_.submit(term, values.data(), values.size(), submitted, Deadline::max());
    const std::uint64_t count = pool_.submitted();
    if (submitted < values.size()) pool_.revoke(term, count);
    ASSERT_EQ(pool_.wait_committed(count, far_off()), Status::kOk);
  }

  /// From any thread: what was submitted is taken back.
  void revoke(std::uint64_t term) { pool_.revoke(term, pool_.submitted()); }

 private:
  static constexpr std::uint64_t kWorkers = 2;

  void work(std::uint64_t number) const {
    const RecordLayout layout(words({}).fields, false);
    workers::Worker worker(pool_.control_block().fd(), kWorkers, number,
                           std::make_unique<workers::RingSlots>(
                               ring_->shared_memory()->fd(), layout, ring_->slots()));
    std::int64_t value = 0;
    while (worker.take(value, Deadline::max()) == Status::kOk) {
      const std::vector<std::int64_t> all(kWords, value);
      const SourceLeaf leaf = SourceLeaf::of(all.data(), kWords);
      worker.write(&leaf);
      worker.done();
    }
  }

  const std::shared_ptr<SharedRing> ring_;
  workers::WorkerPool pool_;
  Threads threads_;
};

TEST(Serve, RevokedRecordsAreWrittenByTheNextServer) {
  const Sizes sizes(20, 300);
  std::shared_ptr<SharedRing> ring = make_ring();
  Job job(*ring, numbered(kWindow, 8, {2, 1}));
  Threads threads;
  std::uint64_t epochs = 0;
  threads.start([&] {
    while (const auto served = job.serve()) {
      expect_exact(*served, sizes, numbered(kWindow, 8, {2, 1}));
      ++epochs;
    }
  });
  std::mt19937_64 random(11);
  std::uint64_t ends = 0;
  while (ring->mapped_header()->ended < sizes.size()) {
    const std::uint64_t epoch = ring->mapped_header()->ended;
    const auto there = ring->resume_offset();
    if (!there) {
      ASSERT_TRUE(ring->begin_epoch(1, far_off()));
    }
    {
      PooledThreads pool(ring);
      const std::uint64_t from = there.value_or(0);
      const std::uint64_t end =
          ring->mapped_header()->published + random() % (sizes[epoch] - from + 60);
      Threads ender;
      std::atomic<bool> over{false};
      ender.start([&, term = ring->term()] {
        while (ring->mapped_header()->published < end && !over)
          std::this_thread::yield();
        pool.revoke(term);
      });
      pool.feed(epoch, from, sizes[epoch]);
      over = true;
      if (ring->end_epoch()) {
        ender.join();
        continue;
      }
      ++ends;
    }
    ring->shut_down();
    const MappedHeader kept(job.slot().fd());
    ring.reset();
    ring = SharedRing::adopt(words({}), kept.fd(), job.memory().fd(), kLease);
  }
  ring->finish("", false);
  threads.join();
  EXPECT_GT(ends, 0u) << "whole epochs alone prove nothing";
  EXPECT_EQ(epochs, sizes.size());
}

/// A ring whose epoch has begun, for a job that never reads.
struct Begun {
  explicit Begun(std::uint64_t slots = kSlots) : ring(make_ring(slots)) {
    job = std::make_unique<Job>(*ring, numbered(kWindow, 4, {1, 1}));
    EXPECT_TRUE(ring->begin_epoch(1, far_off()));
  }
  /// Claims positions, which are written, or not.
  void claim(std::uint64_t count) const {
    std::uint64_t first = 0;
    EXPECT_EQ(ring->claim(ring->term(), first, count, kAtOnce), Status::kOk);
  }
  std::uint64_t published() const { return ring->mapped_header()->published; }
  void await(std::uint64_t position) const {
    while (published() < position) std::this_thread::yield();
  }

  std::unique_ptr<SharedRing> ring;
  std::unique_ptr<Job> job;
};

TEST(Serve, RecordsCommittedAfterAFailureAreNotPublished) {
  for (int turn = 0; turn < 50; ++turn) {
    Begun server;
    server.claim(6);
    server.ring->commit(0, 2);
    server.await(2);
    server.ring->fail();
    server.ring->commit(2, 4);  // as if it was written
    EXPECT_FALSE(server.ring->end_epoch());
    EXPECT_EQ(server.published(), 2u);
    EXPECT_EQ(server.ring->resume_offset(), 2u);
    const auto next = SharedRing::adopt(words({}), server.ring->mapped_header().fd(),
                                        server.ring->shared_memory()->fd(), kLease);
    server.ring.reset();
    EXPECT_EQ(next->resume_offset(), 2u);
  }
}

TEST(Serve, AFailureOfATermThatIsOverChangesNothing) {
  const Begun server;
  const std::uint64_t term = server.ring->term();
  server.claim(3);
  server.ring->commit(0, 3);
  EXPECT_TRUE(server.ring->end_epoch());
  ASSERT_TRUE(server.ring->begin_epoch(1, far_off()));
  server.ring->fail(term);
  server.claim(2);
  server.ring->commit(3, 2);
  EXPECT_TRUE(server.ring->end_epoch());
  EXPECT_EQ(server.published(), 5u);
}

TEST(Serve, AnEpochThatIsShutDownHasNoEndBeyondWhatIsPublished) {
  for (int turn = 0; turn < 200; ++turn) {
    const Begun server;
    const std::uint64_t count = 1 + static_cast<std::uint64_t>(turn) % 8;
    server.claim(count);
    std::atomic<bool> ended{false};
    Threads threads;
    threads.start([&] { ended = server.ring->end_epoch(); });
    threads.start([&] { server.ring->shut_down(); });
    if (turn % 2) threads.start([&] { server.ring->commit(0, count); });
    threads.join();
    const RingHeader& header = *server.ring->mapped_header();
    EXPECT_EQ(header.ended, ended ? 1u : 0u);
    if (ended) {
      EXPECT_LE(header.end_of(0), server.published());
    }
  }
}

TEST(Serve, TheReasonOfAFailureIsCutOnACharacter) {
  for (std::size_t before = 0; before < 4; ++before) {
    const auto ring = make_ring();
    std::string reason(before, 'x');
    for (int i = 0; i < 400; ++i) reason += "\xE2\x98\x83";
    ring->finish(reason, true);
    const std::string told(ring->mapped_header()->reason.data());
    EXPECT_EQ(told, reason.substr(0, told.size()));
    EXPECT_EQ((told.size() - before) % 3, 0U);
    EXPECT_GT(told.size(), ring->mapped_header()->reason.size() - 4);
  }
}

}  // namespace
}  // namespace echobuf::serve::test
