// One preparation for several jobs, of records that differ in length.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "echobuf/shared/shared_ring.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "ragged_support.hpp"
#include "serve_support.hpp"

namespace echobuf::serve::test {
namespace {

constexpr std::uint64_t kPayload = 24'000;  // of a window of kWindow
constexpr std::uint64_t kEpoch = 100'000;   // record i of epoch e is e * kEpoch + i
constexpr std::uint64_t kMost = 700;        // tokens of a record

const LengthsOf kLengths = some_lengths(kMost);

struct OfLengths {
  using Core = Buffer;

  static BufferOptions options(BufferOptions options) { return options; }
  static Ids read(const Batch& batch, const BufferOptions& options,
                  std::uint64_t epoch) {
    Ids ids = read_batch(batch, options, kLengths);
    for (std::uint64_t& id : ids) {
      EXPECT_EQ(id / kEpoch, epoch) << "of another epoch";
      id %= kEpoch;
    }
    return ids;
  }
};
using RaggedJob = BasicJob<OfLengths>;

BufferOptions of_ring() { return of_lengths(kWindow, 1, {1, 1}, kPayload); }

std::shared_ptr<SharedRing> make_payload_ring(std::uint64_t slots = kSlots) {
  return std::make_shared<SharedRing>(of_ring(), slots, -1, kLease);
}

/// The largest windows, and others: each takes the largest record into its share.
std::vector<BufferOptions> ragged_kinds() {
  std::vector<BufferOptions> kinds{
      of_lengths(kWindow, kWindow, {1, 1}, kPayload),
      of_lengths(kWindow, 5, {7, 2}, kPayload),
      prefetched(of_lengths(kWindow, 8, {2, 1}, kPayload / 2)),
      of_lengths(7, 3, {5, 2}, kPayload / 2),
      of_lengths_auto(kWindow, 6, kPayload),
      prefetched(of_lengths_auto(kWindow, 4, kPayload))};
  kinds[3].lengths.form = LengthOptions::Form::kPadded;
  return kinds;
}

/// Puts `from` ... n-1 of an epoch, some at a time, while the ring takes them.
void feed(SharedRing& ring, std::uint64_t epoch, std::uint64_t from, std::uint64_t n) {
  std::mt19937_64 random(epoch);
  const std::uint64_t term = ring.term();
  while (from < n) {
    const std::uint64_t end = std::min(n, from + 1 + random() % 9);
    const Records records(range(epoch * kEpoch + from, epoch * kEpoch + end), kLengths);
    std::uint64_t done = 0;
    if (ring.put(term, records.leaves(), end - from, 0, done, Deadline::max(),
                 nullptr) != Status::kOk)
      return;
    from = end;
  }
}

void run(SharedRing& ring, const Sizes& sizes, std::uint64_t jobs) {
  for (std::uint64_t e = 0; e < sizes.size(); ++e) {
    ASSERT_TRUE(ring.begin_epoch(jobs, far_off()));
    feed(ring, e, 0, sizes[e]);
    ring.end_epoch();
  }
  ring.finish("", false);
}

void expect_order(const RaggedJob::Served& served, const Sizes& sizes,
                  const BufferOptions& options, std::uint64_t epoch) {
  if (options.automatic) {
    expect_exact(served, sizes, options);
    return;
  }
  ASSERT_EQ(served.end, Status::kFinished);
  const LengthsOf lengths = [&](std::uint64_t id) {
    return kLengths(served.epoch * kEpoch + id);
  };
  Buffer alone(options);
  alone.reset(epoch);
  const Epochs expected = echobuf::test::serve(alone, sizes[served.epoch], lengths);
  EXPECT_EQ(served.draws, joined(expected.batches))
      << name_of_lengths(options) << " epoch " << served.epoch;
}

TEST(ServeRagged, EveryJobDrawsAsFromAnUpstreamOfItsOwn) {
  const Sizes sizes{157, 31, 0, 1, 48, 0, 0, 200};
  const auto ring = make_payload_ring();
  const auto kinds = ragged_kinds();
  Threads threads;
  std::atomic<std::uint64_t> epochs{0};
  for (std::size_t i = 0; i < 2 * kinds.size(); ++i)
    threads.start([&, i] {
      const BufferOptions& options = kinds[i / 2];
      RaggedJob job(*ring, options, i % 2);
      std::uint64_t number = 0;
      while (const auto served = job.serve()) {
        expect_order(*served, sizes, options, number++);
        ++epochs;
      }
      EXPECT_EQ(job.reason(), ReadResult::kEnded);
    });
  run(*ring, sizes, 2 * kinds.size());
  threads.join();
  EXPECT_EQ(epochs, 2 * kinds.size() * sizes.size());
}

// The next server knows from the memory alone where the payload is in use.
TEST(ServeRagged, TheNextServerGoesOnInTheMiddleOfAnEpoch) {
  const Sizes sizes(12, 300);
  std::shared_ptr<SharedRing> ring = make_payload_ring();
  const std::vector<BufferOptions> kinds{of_lengths(kWindow, 8, {2, 1}, kPayload),
                                         of_lengths(9, 3, {1, 1}, kPayload / 3)};
  std::vector<std::unique_ptr<RaggedJob>> jobs;
  for (const BufferOptions& options : kinds)
    jobs.push_back(std::make_unique<RaggedJob>(*ring, options));
  Threads threads;
  std::atomic<std::uint64_t> epochs{0};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    threads.start([&, i] {
      while (const auto served = jobs[i]->serve()) {
        expect_exact(*served, sizes, kinds[i]);
        ++epochs;
      }
    });
  std::mt19937_64 random(5);
  std::uint64_t ends = 0;
  while (ring->mapped_header()->ended < sizes.size()) {
    const std::uint64_t epoch = ring->mapped_header()->ended;
    const auto there = ring->resume_offset();
    if (!there) {
      ASSERT_TRUE(ring->begin_epoch(kinds.size(), far_off()));
    }
    const std::uint64_t from = there.value_or(0);
    const std::uint64_t end =
        ring->mapped_header()->published + random() % (sizes[epoch] - from + 60);
    Threads ender;
    std::atomic<bool> over{false};
    ender.start([&, term = ring->term()] {
      while (ring->mapped_header()->published < end && !over) std::this_thread::yield();
      if (!over) ring->fail(term);
    });
    feed(*ring, epoch, from, sizes[epoch]);
    over = true;
    ender.join();
    if (ring->end_epoch()) continue;
    ++ends;
    ring->shut_down();
    const MappedHeader kept(jobs[0]->slot().fd());
    ring.reset();
    ring = SharedRing::adopt(of_ring(), kept.fd(), jobs[0]->memory().fd(), kLease);
  }
  ring->finish("", false);
  threads.join();
  EXPECT_GT(ends, 0u) << "whole epochs alone prove nothing";
  EXPECT_EQ(epochs, kinds.size() * sizes.size());
}

// Both have slots and payload of the same size, and neither field of the other.
TEST(ServeRagged, ARingOfOtherRecordsIsNotAdopted) {
  const auto ring = make_payload_ring();
  BufferOptions options = of_ring();
  options.lengths.fields.pop_back();
  const MappedHeader kept(ring->mapped_header().fd());
  EXPECT_THROW(
      SharedRing::adopt(options, kept.fd(), ring->shared_memory()->fd(), kLease),
      std::invalid_argument);
}

TEST(ServeRagged, AJobIsToldOfARecordThatIsLargerThanItsShare) {
  const auto ring = make_payload_ring();
  std::uint64_t first = 0;  // that has more bytes
  while (kLengths(first).bytes() <= 1000) ++first;
  RaggedJob job(*ring, of_lengths(8, 2, {2, 1}, 2000));
  Threads threads;
  threads.start([&] {
    const auto served = job.serve();
    ASSERT_TRUE(served);
    EXPECT_EQ(served->end, Status::kFailed);
    for (const std::uint64_t id : served->draws) EXPECT_LT(id, first);
    EXPECT_EQ(job.reason(), ReadResult::kMisfit);
    ring->seats().leave(job.seat().first, job.seat().second);
  });
  run(*ring, {first + 1}, 1);
  threads.join();
}

// A job that was dropped reads a table that is written at the same time: its draws end,
// and are for nothing.
TEST(ServeRagged, ADroppedJobSurvivesWhatItReads) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto ring = make_payload_ring();
    RaggedJob job(*ring, of_lengths(kWindow, 4, {2, 1}, kPayload));
    RaggedJob other(*ring, of_lengths(kWindow, 4, {1, 1}, kPayload));
    Threads threads;
    threads.start([&] {
      const auto served = job.serve();
      if (served) {
        EXPECT_NE(served->end, Status::kOk);
      }
    });
    threads.start([&] {
      const auto served = other.serve();
      ASSERT_TRUE(served);
      EXPECT_EQ(served->end, Status::kFinished);
    });
    threads.start([&] {
      while (ring->mapped_header()->published < 5 * round + 1)
        std::this_thread::yield();
      ring->seats().leave(job.seat().first, job.seat().second);
    });
    run(*ring, {400}, 2);
    threads.join();
  }
}

TEST(ServeRagged, WorkersMakeTheRecordsOfAServer) {
  const Sizes sizes{300, 7, 150};
  const auto ring = make_payload_ring();
  const BufferOptions options = of_lengths(kWindow, 5, {2, 1}, kPayload);
  RaggedJob job(*ring, options);
  workers::WorkerPool pool(std::make_unique<RecordSinkOf<SharedRing>>(ring), 2, 4);
  Threads threads;
  for (std::uint64_t i = 0; i < 2; ++i)
    threads.start([&, i] {
      const workers::RowsAreas& areas = *pool.areas();
      workers::Worker worker(
          pool.control_block().fd(), 2, i,
          std::make_unique<workers::RowsAreas>(areas.memory().fd(), 2, areas.record(),
                                               areas.sizes()));
      std::int64_t index = 0;
      while (worker.take(index, Deadline::max()) == Status::kOk) {
        const Records records({static_cast<std::uint64_t>(index)}, kLengths);
        worker.write(records.leaves(), Deadline::max());
        worker.done();
      }
    });
  threads.start([&] {
    std::uint64_t number = 0;
    while (const auto served = job.serve())
      expect_order(*served, sizes, options, number++);
    EXPECT_EQ(number, sizes.size());
  });
  for (std::uint64_t e = 0; e < sizes.size(); ++e) {
    ASSERT_TRUE(ring->begin_epoch(1, far_off()));
    pool.begin(ring->term(), std::nullopt);
    for (std::uint64_t i = 0; i < sizes[e]; ++i) {
      const auto index = static_cast<std::int64_t>(e * kEpoch + i);
      std::uint64_t submitted = 0;
      ASSERT_EQ(pool.submit(ring->term(), &index, 1, submitted, far_off()),
                Status::kOk);
    }
    ASSERT_EQ(pool.wait_committed(pool.submitted(), far_off()), Status::kOk);
    EXPECT_TRUE(ring->end_epoch());
  }
  ring->finish("", false);
  pool.close();
  threads.join();
}

}  // namespace
}  // namespace echobuf::serve::test
