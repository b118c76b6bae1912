// One preparation for several jobs: a server and its jobs, with mappings of their own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "echobuf/shared/shared_ring.hpp"
#include "serve_support.hpp"

namespace echobuf::serve::test {
namespace {

/// The largest windows, and others.
std::vector<BufferOptions> all_kinds() {
  return {numbered(kWindow, kWindow, {1, 1}),
          numbered(kWindow, 5, {7, 2}),
          prefetched(numbered(kWindow, 8, {2, 1})),
          numbered(7, 3, {5, 2}),
          numbered_auto(kWindow, 6),
          prefetched(numbered_auto(9, 4))};
}

TEST(Serve, EveryJobGetsEveryExampleOfEveryEpoch) {
  const Sizes sizes{257, 31, 0, 1, 48, 0, 0, 400};
  const auto ring = make_ring();
  const auto kinds = all_kinds();
  Threads threads;
  std::atomic<std::uint64_t> epochs{0};
  for (std::size_t i = 0; i < 2 * kinds.size(); ++i)
    threads.start([&, i] {
      const BufferOptions& options = kinds[i / 2];
      Job job(*ring, options, i % 2);
      while (const auto served = job.serve()) {
        expect_exact(*served, sizes, options);
        ++epochs;
      }
      EXPECT_EQ(job.reason(), ReadResult::kEnded);
    });
  run_epochs(*ring, sizes, 2 * kinds.size(), 3);
  threads.join();
  EXPECT_EQ(epochs, 2 * kinds.size() * sizes.size());
}

TEST(Serve, AnEpochEndsWhereItEndsHoweverSoonTheNextOneCame) {
  constexpr std::uint64_t kEpochs = echobuf::test::rounds(3000);
  Sizes sizes;
  for (std::uint64_t e = 0; e < kEpochs; ++e) sizes.push_back(e % 4);
  const auto ring = make_ring();
  Threads threads;
  for (const bool overlaps : {false, true, false})
    threads.start([&, overlaps] {
      const BufferOptions options = numbered(kWindow, 4, {2, 1});
      Job job(*ring, options, overlaps);
      std::uint64_t epochs = 0;
      while (const auto served = job.serve()) {
        expect_exact(*served, sizes, options);
        ++epochs;
      }
      EXPECT_EQ(epochs, kEpochs);
    });
  run_epochs(*ring, sizes, 3, 1);
  threads.join();
}

// The server ends an epoch, and publishes of the next one, while a job looks.
TEST(Serve, AJobThatLooksMeanwhileTakesNothingOfTheNextEpoch) {
  constexpr std::uint64_t kEpochs = echobuf::test::rounds(100'000), kEach = 2;
  const MappedHeader mapped;
  RingHeader& header = *mapped;
  header.slots = 1 << 19;
  header.stride = 16;
  header.seats[0].holder = 1;
  header.seats[0].state = Seat::kTaken;
  const auto slot = std::make_shared<ClientSlot>(mapped.fd(), 0, 1, kLease);
  BufferOptions options = numbered(header.slots / 2, 1, {1, 1});
  options.borrowed = std::make_shared<const BorrowedSlots>(
      BorrowedSlots{std::make_shared<const SharedMemory>(header.slots * header.stride),
                    header.slots, 0, slot});
  const auto buffer = std::make_shared<Buffer>(options);
  RingReader reader(std::make_unique<RecordSinkOf<Buffer>>(buffer), slot);
  reader.begin(0);
  std::atomic<std::uint64_t> looked_at{0};
  Threads threads;
  threads.start([&] {
    for (std::uint64_t e = 0; e < kEpochs; ++e) {
      while (looked_at < e) std::this_thread::yield();
      const std::uint64_t end = kEach * (e + 1);
      for (std::uint64_t p = end - 1; p <= end; ++p)
        header.published.store(p, std::memory_order_release);
      header.ends[e % RingHeader::kEnds].store(end, std::memory_order_release);
      header.ended.store(e + 1, std::memory_order_release);
      header.published.store(end + 1, std::memory_order_release);
      header.news.notify();
    }
    header.phase = RingHeader::kOver;
  });
  for (std::uint64_t e = 0; e < kEpochs; ++e) {
    looked_at = e;
    ASSERT_EQ(reader.read(buffer->term(), e, far_off()), ReadResult::kEnded);
    ASSERT_EQ(reader.position(), kEach * (e + 1));
  }
}

TEST(Serve, NoLeaseRunsOutWhileTheServerStandsStill) {
  constexpr std::int64_t kMs = 1'000'000;
  RingHeader header;
  const Seat& seat = header.seats[5];
  std::int64_t now = 3 * kMs;
  LeaseTimer silence(header, 1.0, now);
  const auto hears = [&](std::int64_t milliseconds) {
    silence.tick(now += milliseconds * kMs);
    return !silence.has_expired(seat);
  };
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(hears(60'000));
  header.seats[5].heartbeat_ns = now;
  for (int i = 0; i < 21; ++i) EXPECT_TRUE(hears(50));
  EXPECT_FALSE(hears(50));
  header.seats[5].heartbeat_ns = now;
  EXPECT_TRUE(hears(50));
}

TEST(Serve, AnEpochLeftEarlyHoldsUpNoJob) {
  const Sizes sizes(6, 300);
  const auto ring = make_ring();
  const BufferOptions options = numbered(kWindow, 8, {2, 1});
  Threads threads;
  threads.start([&] {
    Job job(*ring, options);
    while (const auto served = job.serve()) expect_exact(*served, sizes, options);
  });
  for (const BufferOptions& kind : all_kinds())
    threads.start([&, kind] {
      Job job(*ring, kind);
      std::uint64_t epochs = 0;
      for (; const auto served = job.serve(epochs % 2 ? ~0ULL : epochs); ++epochs)
        if (epochs % 2) expect_exact(*served, sizes, kind);
      EXPECT_EQ(epochs, sizes.size());
    });
  run_epochs(*ring, sizes, 1 + all_kinds().size(), 2);
  threads.join();
}

TEST(Serve, ALateJobBeginsWithTheNextEpoch) {
  const Sizes sizes(5, 200);
  const auto ring = make_ring();
  const BufferOptions options = numbered(kWindow, 8, {3, 1});
  Threads threads;
  std::atomic<std::uint64_t> together{0};
  threads.start([&] {
    Job early(*ring, options);
    Threads late;
    for (std::uint64_t epoch = 0;; ++epoch) {
      if (epoch == 1) {
        // It has begun by now, or not: the late one is in it, or in the next.
        late.start([&, job = std::make_shared<Job>(*ring, options)] {
          std::uint64_t expected = 0;
          while (const auto served = job->serve()) {
            EXPECT_GE(served->epoch, 1u);
            if (expected) {
              EXPECT_EQ(served->epoch, expected);
            }
            expected = served->epoch + 1;
            expect_exact(*served, sizes, options);
            ++together;
          }
        });
      }
      const auto served = early.serve();
      if (!served) return;
      EXPECT_EQ(served->epoch, epoch);
      expect_exact(*served, sizes, options);
    }
  });
  run_epochs(*ring, sizes, 1, 2);
  threads.join();
  EXPECT_LE(together, 4u);
}

TEST(Serve, ADroppedJobHasServedNoSlotThatWasReused) {
  constexpr std::uint64_t kEpochs = 80;
  const Sizes sizes(1'000 * kEpochs, 500);
  const auto ring = make_ring();
  const BufferOptions options = numbered(kWindow, 4, {2, 1});
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> dropped{0};
  Threads threads;
  threads.start([&] {
    Job job(*ring, options);
    while (const auto served = job.serve()) expect_exact(*served, sizes, options);
    over = true;
  });
  for (const BufferOptions& kind : {options, prefetched(options)})
    threads.start([&, kind] {
      std::mt19937_64 random(kind.prefetch);
      while (!over) {
        Job job(*ring, kind);
        std::atomic<bool> done{false};
        Threads dropper;
        const auto pause = std::chrono::microseconds(random() % 3000);
        dropper.start([&, pause] {
          while (!done && !job.slot().first_epoch()) std::this_thread::yield();
          std::this_thread::sleep_for(pause);  // any moment: nothing relies on it
          ring->seats().leave(job.seat().first, job.seat().second);
        });
        while (const auto served = job.serve()) {
          if (served->end != Status::kFinished) {
            EXPECT_EQ(served->end, Status::kFailed);
            EXPECT_FALSE(job.slot().is_held());
            ++dropped;
            break;
          }
          expect_exact(*served, sizes, kind);
        }
        done = true;
      }
    });
  // Goes on until it has happened: who drops a job comes in its midst, or between two.
  run_epochs(*ring, sizes, 1, 2,
             [&](std::uint64_t epoch) { return epoch < kEpochs || dropped == 0; });
  threads.join();
  EXPECT_GT(dropped, 0u);
  EXPECT_TRUE(ring->seats().reports().empty() || ring->seats().reports().size() == 1);
}

TEST(Serve, AnotherServerGoesOnInTheMiddleOfAnEpoch) {
  const Sizes sizes{150, 400, 10, 333};
  auto ring = make_ring();
  const auto kinds = all_kinds();
  Threads threads;
  std::vector<std::unique_ptr<Job>> jobs;
  for (const BufferOptions& kind : kinds)
    jobs.push_back(std::make_unique<Job>(*ring, kind));
  std::atomic<std::uint64_t> epochs{0};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    threads.start([&, i] {
      while (const auto served = jobs[i]->serve()) {
        expect_exact(*served, sizes, kinds[i]);
        ++epochs;
      }
    });
  std::mt19937_64 random(5);
  std::uint64_t kills = 0;
  while (ring->mapped_header()->ended < sizes.size()) {
    const std::uint64_t e = ring->mapped_header()->ended;
    const auto there = ring->resume_offset();
    if (!there) {
      ASSERT_TRUE(ring->begin_epoch(kinds.size(), far_off()));
    }
    Upstream upstream(*ring);
    upstream.kill_at(there.value_or(0) + random() % 120);
    if (upstream.feed(e, there.value_or(0), sizes[e], 3)) {
      ring->end_epoch();
      continue;
    }
    ++kills;
    ring->shut_down();
    const MappedHeader kept(jobs[0]->slot().fd());
    const int memory = jobs[0]->memory().fd();
    ring.reset();
    EXPECT_THROW(SharedRing::adopt(checked(words({})), -1, memory, kLease),
                 std::system_error);
    ring = SharedRing::adopt(words({}), kept.fd(), memory, kLease);
    EXPECT_EQ(ring->seats().reports().size(), jobs.size());
  }
  ring->finish("", false);
  threads.join();
  EXPECT_GT(kills, 4u);
  EXPECT_EQ(epochs, kinds.size() * sizes.size());
}

TEST(Serve, ASilentJobIsDropped) {
  const auto ring = make_ring(kSlots, 0.2);
  const BufferOptions options = numbered(kWindow, 4, {2, 1});
  std::pair<std::uint64_t, std::uint64_t> silent;
  std::optional<Job> job;
  const auto leave = [&](const auto& seat) {
    ring->seats().leave(seat.first, seat.second);
  };
  for (;;) {
    silent = *ring->seats().take();  // and gone, before it said anything
    job.emplace(*ring, options);
    if (ring->begin_epoch(2, kAtOnce)) break;
    leave(silent);  // we were so slow that one of them was dropped already
    leave(job->seat());
  }
  Threads threads;
  threads.start([&] {
    // It says nothing for longer than its lease would be here: see kLease. If it comes
    // so late that its seat is gone, it serves nothing.
    if (const auto served = job->serve()) {
      EXPECT_EQ(served->end, Status::kFailed);
    }
    EXPECT_FALSE(job->slot().is_held());
  });
  // It has no end: it ends since nobody is left.
  Upstream(*ring).feed(0, 0, std::uint64_t{1} << 32, 1);
  ring->end_epoch();
  threads.join();
  EXPECT_FALSE(ring->seats().holds(silent.first, silent.second));
  EXPECT_TRUE(ring->seats().reports().empty());
}

TEST(Serve, ALiteralOfSlotsIsNoDescriptor) {
  const SharedRing ring(words({}), 64, -1, 10.0);
  EXPECT_EQ(ring.slots(), 64u);
  EXPECT_THROW(SharedRing(words({}), 0, -1, 10.0), std::invalid_argument);
}

TEST(Serve, ADetachedJobBorrowsNoSlots) {
  const auto ring = make_ring();
  const Job job(*ring, numbered(kWindow, 8, {2, 1}));
  EXPECT_TRUE(job.slot().is_held());
  job.slot().detach();
  EXPECT_FALSE(job.slot().is_held());  // though the server has not heard of it
  EXPECT_TRUE(ring->seats().holds(job.seat().first, job.seat().second));
}

TEST(Serve, RefusesARingOfOtherRecords) {
  const auto ring = make_ring();
  BufferOptions other;
  other.fields = {{8, 1}};
  EXPECT_THROW(SharedRing::adopt(other, ring->mapped_header().fd(),
                                 ring->shared_memory()->fd(), kLease),
               std::invalid_argument);
  EXPECT_THROW(MappedHeader(ring->shared_memory()->fd()), std::exception);
}

}  // namespace
}  // namespace echobuf::serve::test
