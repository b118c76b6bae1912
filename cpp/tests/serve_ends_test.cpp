// How an epoch of a server ends: whole, cut short by a failure, or taken back.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/serve/station.hpp"
#include "echobuf/workers/crew.hpp"
#include "echobuf/workers/worker.hpp"
#include "serve_support.hpp"

namespace echobuf::serve::test {
namespace {

/// Workers of a station, as threads with mappings of their own.
class Crewed {
 public:
  explicit Crewed(std::shared_ptr<Station> station)
      : station_(std::move(station)), crew_(station_, kLanes, 16) {
    for (std::uint64_t lane = 0; lane < kLanes; ++lane)
      threads_.start([this, lane] { work(lane); });
  }
  ~Crewed() {
    crew_.close();
    threads_.join();
  }

  /// Gives out `from` ... n-1 of an epoch, until the term ends; then, as the feeding
  /// thread of a loader does, takes back what is not wanted once somebody said so.
  void feed(std::uint64_t epoch, std::uint64_t from, std::uint64_t n) {
    const std::uint64_t term = station_->term();
    std::vector<std::int64_t> values;
    for (std::uint64_t i = from; i < n; ++i)
      values.push_back(static_cast<std::int64_t>(epoch << 32 | i));
    std::uint64_t given = 0;
    crew_.give(term, values.data(), values.size(), given, Deadline::max());
    const std::vector<std::uint64_t> counts = crew_.given();
    if (given < values.size()) crew_.revoke(term, counts);
    ASSERT_EQ(crew_.settle(counts, far_off()), Status::kOk);
  }

  /// From any thread: what was given is taken back.
  void revoke(std::uint64_t term) { crew_.revoke(term, crew_.given()); }

 private:
  static constexpr std::uint64_t kLanes = 2;

  void work(std::uint64_t lane) const {
    const RecordLayout layout(words({}).fields, false);
    workers::Worker worker(crew_.board().fd(), kLanes, lane,
                           station_->shared_memory()->fd(), layout, station_->slots());
    std::int64_t value = 0;
    while (worker.take(value, Deadline::max()) == Status::kOk) {
      const std::vector<std::int64_t> all(kWords, value);
      const SourceLeaf leaf = SourceLeaf::of(all.data(), kWords);
      worker.write(&leaf);
      worker.done();
    }
  }

  const std::shared_ptr<Station> station_;
  workers::Crew<Station> crew_;
  Threads threads_;
};

TEST(Serve, WhatIsTakenBackFromWorkersIsWrittenByTheNextServer) {
  const Sizes sizes(20, 300);
  std::shared_ptr<Station> station = make_station();
  Job job(*station, numbered(kWindow, 8, {2, 1}));
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
  while (station->feed()->ended < sizes.size()) {
    const std::uint64_t epoch = station->feed()->ended;
    const auto there = station->begun_before();
    if (!there) {
      ASSERT_TRUE(station->begin_epoch(1, far_off()));
    }
    {
      Crewed crew(station);
      const std::uint64_t from = there.value_or(0);
      const std::uint64_t end =
          station->feed()->published + random() % (sizes[epoch] - from + 60);
      Threads ender;
      std::atomic<bool> over{false};
      ender.start([&, term = station->term()] {
        while (station->feed()->published < end && !over) std::this_thread::yield();
        crew.revoke(term);
      });
      crew.feed(epoch, from, sizes[epoch]);
      over = true;
      if (station->end_epoch()) {
        ender.join();
        continue;
      }
      ++ends;
    }
    station->shut_down();
    const Feed kept(job.place().fd());
    station.reset();
    station = Station::adopt(words({}), kept.fd(), job.memory().fd(), kLease);
  }
  station->finish("", false);
  threads.join();
  EXPECT_GT(ends, 0u) << "whole epochs alone prove nothing";
  EXPECT_EQ(epochs, sizes.size());
}

/// A station whose epoch has begun, for a job that never reads.
struct Begun {
  explicit Begun(std::uint64_t slots = kSlots) : station(make_station(slots)) {
    job = std::make_unique<Job>(*station, numbered(kWindow, 4, {1, 1}));
    EXPECT_TRUE(station->begin_epoch(1, far_off()));
  }
  /// Claims positions, which are written, or not.
  void claim(std::uint64_t count) const {
    std::uint64_t first = 0;
    EXPECT_EQ(station->claim(station->term(), first, count, kAtOnce), Status::kOk);
  }
  std::uint64_t published() const { return station->feed()->published; }
  void await(std::uint64_t position) const {
    while (published() < position) std::this_thread::yield();
  }

  std::unique_ptr<Station> station;
  std::unique_ptr<Job> job;
};

TEST(Serve, WhatIsCommittedAfterAFailureIsNotPublished) {
  for (int turn = 0; turn < 50; ++turn) {
    Begun server;
    server.claim(6);
    server.station->commit(0, 2);
    server.await(2);
    server.station->fail();
    server.station->commit(2, 4);  // as if it was written
    EXPECT_FALSE(server.station->end_epoch());
    EXPECT_EQ(server.published(), 2u);
    EXPECT_EQ(server.station->begun_before(), 2u);
    const auto next = Station::adopt(words({}), server.station->feed().fd(),
                                     server.station->shared_memory()->fd(), kLease);
    server.station.reset();
    EXPECT_EQ(next->begun_before(), 2u);
  }
}

TEST(Serve, AFailureOfATermThatIsOverChangesNothing) {
  const Begun server;
  const std::uint64_t term = server.station->term();
  server.claim(3);
  server.station->commit(0, 3);
  EXPECT_TRUE(server.station->end_epoch());
  ASSERT_TRUE(server.station->begin_epoch(1, far_off()));
  server.station->fail(term);
  server.claim(2);
  server.station->commit(3, 2);
  EXPECT_TRUE(server.station->end_epoch());
  EXPECT_EQ(server.published(), 5u);
}

TEST(Serve, AnEpochThatIsShutDownHasNoEndBeyondWhatIsPublished) {
  for (int turn = 0; turn < 200; ++turn) {
    const Begun server;
    const std::uint64_t count = 1 + static_cast<std::uint64_t>(turn) % 8;
    server.claim(count);
    std::atomic<bool> ended{false};
    Threads threads;
    threads.start([&] { ended = server.station->end_epoch(); });
    threads.start([&] { server.station->shut_down(); });
    if (turn % 2) threads.start([&] { server.station->commit(0, count); });
    threads.join();
    const Header& header = *server.station->feed();
    EXPECT_EQ(header.ended, ended ? 1u : 0u);
    if (ended) {
      EXPECT_LE(header.end_of(0), server.published());
    }
  }
}

TEST(Serve, WhyUpstreamFailedIsCutOnACharacter) {
  for (std::size_t before = 0; before < 4; ++before) {
    const auto station = make_station();
    std::string why(before, 'x');
    for (int i = 0; i < 400; ++i) why += "\xE2\x98\x83";
    station->finish(why, true);
    const std::string told(station->feed()->why.data());
    EXPECT_EQ(told, why.substr(0, told.size()));
    EXPECT_EQ((told.size() - before) % 3, 0U);
    EXPECT_GT(told.size(), station->feed()->why.size() - 4);
  }
}

}  // namespace
}  // namespace echobuf::serve::test
