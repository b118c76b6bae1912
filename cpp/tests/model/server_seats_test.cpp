// No job of a server serves a record that was written over, in any execution; and each
// change of the seats' protocol that matters is found.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>

#include "mutants.hpp"
#include "server_seats_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

template <bool Drops, std::uint64_t DropFrom = 0, std::uint64_t Records = 2>
Result job(const Options& options) {
  SeatsPlan plan;
  plan.drops = Drops;
  plan.drop_from = DropFrom;
  plan.records = Records;
  return explore<JobBesideServer>(plan, options);
}

template <std::uint64_t Records>
Result taken_again(const Options& options) {
  SeatsPlan plan;
  plan.records = Records;
  return explore<SeatTakenAgain>(plan, options);
}

const Try kTries[] = {
    {"a job that stays", job<false>},
    {"a job that stays, 3 records", job<false, 0, 3>},
    {"a job dropped at any time", job<true>},
    {"a job dropped after a record", job<true, 1>},
    {"a seat taken again", taken_again<3>},
};

TEST(SeatsModel, NoJobServesARecordWrittenOver) {
  for (const Try& t : kTries) {
    const Result result = t.run({});
    EXPECT_TRUE(result.ok && result.complete) << t.name << ": " << result.failure;
    if (!result.ok)
      for (const std::string& line : result.trace) ADD_FAILURE() << line;
    std::printf("%s: %llu states, %llu steps, %.1f s\n", t.name,
                static_cast<unsigned long long>(result.states),
                static_cast<unsigned long long>(result.steps), result.seconds);
  }
}

TEST(SeatsModel, AJobMayBeDroppedBeforeAndAfterEachRecord) {
  EXPECT_EQ(job<true>({}).outcomes, (std::set<std::uint64_t>{0, 1}));
  const auto later = job<true, 1>;
  EXPECT_EQ(later({}).outcomes, (std::set<std::uint64_t>{1, 2}));
}

TEST(SeatsMutants, FaultsAreFound) {
  for (const SeatFault fault :
       {SeatFault::kReleasesFirst, SeatFault::kOnlyLoads, SeatFault::kNeverLooks}) {
    SeatsPlan plan;
    plan.drops = true;
    plan.fault = fault;
    const Result result = explore<JobBesideServer>(plan);
    EXPECT_EQ(result.failure.find("a batch holds another record"), 0u)
        << static_cast<int>(fault) << ": " << result.failure;
  }
}

constexpr const char* kNewest =
    "a read-modify-write reads the newest holder, and no load of the model reads what "
    "is "
    "written after it";
constexpr const char* kDriver = "of the program: ends its loop";
constexpr Known kKnown[] = {
    {"SeatsWorld::drop ", "acq_rel -> acquire", kNewest},
    {"SeatsWorld::drop ", "acq_rel -> release", kNewest},
    {"SeatsWorld::drop ", "acq_rel -> relaxed", kNewest},
    {"SeatsWorld::is_held ", "acq_rel -> acquire", kNewest},
    {"SeatsWorld::is_held ", "acq_rel -> release", kNewest},
    {"SeatsWorld::is_held ", "acq_rel -> relaxed", kNewest},
    {"SeatsWorld::is_held ", "left out",
     "it reads the newest holder then, too; a load that may not is "
     "SeatFault::kOnlyLoads"},
    {"SeatsWorld::in_use ", "acquire -> relaxed",
     "of `published_` alone: nothing is read by that position"},
    {"SeatsWorld::read_record ", "acquire -> relaxed",
     "of the holder alone: a hint, the look behind the read decides"},
    {"SeatTakenAgain::take_seat ", "left out",
     "begin_epoch() writes both before the seat counts", 2},
    {"JobBesideServer::keep ", "acquire -> relaxed", kDriver},
    {"SeatsWorld::put_and_publish ", "release -> relaxed", kDriver},
};

TEST(SeatsMutants, AreFound) {
  Mutants({std::begin(kTries), std::end(kTries)}, {{"server_seats_world.hpp", 15}},
          {std::begin(kKnown), std::end(kKnown)})
      .expect_found(300'000);
}

}  // namespace
