// Every atomic operation of the ring, the event count, the draw lock and of how a
// buffer ends and restarts is weakened, and left out.
#include "mutants.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "buffer_ahead_world.hpp"
#include "buffer_world.hpp"
#include "payload_world.hpp"
#include "ring_ahead_world.hpp"
#include "ring_world.hpp"
#include "staged_payload_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

template <class World, std::uint64_t Capacity, std::uint64_t Runs0, std::uint64_t Runs1,
          bool SecondCloses = false, std::uint32_t Tick = ~0u>
Result run(const Options& options) {
  RingPlan plan;
  plan.capacity = Capacity;
  plan.runs[0] = Runs0;
  plan.runs[1] = Runs1;
  plan.second_closes = SecondCloses;
  plan.put_deadline = Tick;
  return explore<World>(plan, options);
}

/// A term opened ahead, without and with a thread that puts beside it.
template <int Threads, std::uint64_t Capacity, std::uint64_t First, bool GivesUp>
Result run_ahead(const Options& options) {
  RingPlan plan;
  plan.capacity = Capacity;
  plan.runs[0] = First;
  plan.ahead = First;
  plan.gives_up = GivesUp;
  return explore<PutAhead<Threads>>(plan, options);
}

template <class World, bool Fails = false, bool Downs = false,
          std::uint64_t Examples = 1>
Result run_buffer(const Options& options) {
  BufferPlan plan;
  plan.examples = Examples;
  plan.fails = Fails;
  plan.downs = Downs;
  return explore<World>(plan, options);
}

Result run_claims(const Options& options) {
  RingPlan plan;
  plan.capacity = 1;
  plan.runs[1] = 2;
  plan.keep = 2;
  return explore<ClaimAndLook>(plan, options);
}

/// Records that differ in size, of a payload of three units.
template <class World, std::uint64_t Runs0, std::uint64_t Runs1, std::uint64_t Size0,
          std::uint64_t Size1, bool SecondCloses = false>
Result run_payload(const Options& options) {
  RingPlan plan;
  plan.capacity = 2;
  plan.units = 3;
  plan.sizes[0] = Size0;
  plan.sizes[1] = Size1;
  plan.runs[0] = Runs0;
  plan.runs[1] = Runs1;
  plan.keep = 2;
  plan.second_closes = SecondCloses;
  return explore<World>(plan, options);
}

/// Three records of a payload of six units, through staging.
template <std::uint64_t Slots, std::uint64_t Units, std::uint64_t Size>
Result run_staged(const Options& options) {
  RingPlan plan;
  plan.capacity = 3;
  plan.units = 6;
  plan.sizes[0] = Size;
  plan.runs[0] = 3;
  plan.staged_slots = Slots;
  plan.staged_units = Units;
  return explore<PutThroughStaging>(plan, options);
}

const Try kTries[] = {
    {"claims", run_claims},
    {"a record", run<PutAndTake, 1, 1, 0>},
    {"two records in a slot", run<PutAndTake, 1, 2, 0>},
    {"a close beside a put", run<PutAndTake, 1, 1, 0, true>},
    {"a close beside puts", run<PutAndTake, 1, 2, 0, true>},
    {"a buffer that fails", run_buffer<PutAndNext<2>, true>},
    {"a buffer shut down", run_buffer<PutAndNext<2>, false, true>},
    {"a reset", run<PutAndReset, 2, 1, 0>},
    {"a reset, two producers", run<PutAndReset, 2, 1, 1>},
    {"a term ahead", run_ahead<2, 1, 1, false>},
    {"a term ahead, given up for it", run_ahead<3, 2, 0, true>},
    {"a shutdown beside a term ahead", run_buffer<ShutDownBesideOpening>},
    {"a buffer that fails ahead", run_buffer<PutAndGoAhead, true, false, 0>},
    {"a buffer reset, a failure ahead", run_buffer<ResetOfAFailureAhead>},
    {"payload: claims", run_payload<ClaimPayloadAndLook, 1, 2, 2, 1>},
    {"payload: claims of none", run_payload<ClaimPayloadAndLook, 2, 2, 2, 0>},
    {"payload: a record", run_payload<PutAndTakePayload, 1, 0, 2, 0>},
    {"payload: a close beside a put", run_payload<PutAndTakePayload, 1, 0, 2, 1, true>},
    {"payload: it goes around", run_payload<PutAndTakePayload, 2, 0, 2, 0>},
    {"payload: more records than slots", run_payload<PutAndTakePayload, 3, 0, 1, 0>},
    {"payload: a reset", run_payload<PutPayloadAndReset, 1, 1, 2, 1>},
    {"payload: a reset, full", run_payload<PutPayloadAndReset, 1, 1, 2, 2>},
    {"payload: a term ahead", run_payload<PutPayloadAhead<2>, 1, 0, 2, 0>},
    {"staging: few slots", run_staged<1, 4, 1>},
    {"staging: few units", run_staged<2, 2, 2>},
    {"two producers", run<PutAndTake, 1, 1, 1>},
    {"two consumers, no record", run<TakeInTurn, 1, 0, 0>},
    {"two consumers", run<TakeInTurn, 1, 1, 0>},
    {"a buffer reset", run_buffer<PutAndRestart<2>>},
    {"a term failed beside a reset", run_buffer<FailATermBesideRestart>},
};

constexpr File kFiles[] = {{"ring.hpp", 9},           {"claims.hpp", 22},
                           {"staging_limits.hpp", 2}, {"event_count.hpp", 3},
                           {"draw_lock.hpp", 2},      {"epoch_changes.hpp", 2},
                           {"termination.hpp", 8},    {"draw_path.hpp", 3}};

constexpr const char* kByTheTail =
    "comes with the ring's close, or with the draw lock; kept for those who look alone";
constexpr const char* kByTheWord =
    "of the term alone: the exchange of the word that follows orders it";
constexpr const char* kMissing = "not explored: a close or shut_down during a reset";
constexpr Known kKnown[] = {
    {"EventCount::wake event_count.hpp:", "left out",
     "a mark that stays only makes the next notifier wake nobody"},
    {"::restart epoch_changes.hpp:", "release -> relaxed",
     "fail() reads nothing behind it: the pause orders what is served"},
    {"::restart epoch_changes.hpp:", "left out",
     "a reset that waits for workers needs it: workers_test.cpp", 2},
    {"::fail epoch_changes.hpp:", "acquire -> relaxed", "as the store in restart()"},
    {"Ring::closed ", "acquire -> relaxed",
     "the load of the tail that follows acquires"},
    {"Claims::claim_slots ", "left out", "a statistic of factor=auto"},
    {"Claims::claim_slots ", "acq_rel -> release",
     "a success needs nothing from the word that the load before did not give"},
    {"Claims::claim_rows ", "left out", "statistics: of factor=auto, and of bytes", 2},
    {"Claims::claim_rows ", "acquire -> relaxed",
     "of the term alone: the load of the word before it acquires"},
    {"Claims::claim_rows ", "acq_rel -> release", "as Claims::claim_slots"},
    {"Claims::has_room ", "acquire -> relaxed",
     "a hint: the claim that follows acquires", 3},
    {"Claims::end ", "acquire -> relaxed",
     "of the word the first load, since the second acquires; the limit gives digits "
     "alone",
     2},
    {"Claims::term ", "acquire -> relaxed", "the claim that follows acquires"},
    {"Claims::close ", "acq_rel -> release", kMissing},
    {"Claims::reopen ", "acquire -> relaxed", kMissing},
    {"Claims::reopen ", "acq_rel -> acquire", kByTheWord},
    {"Claims::reopen ", "acq_rel -> relaxed", kByTheWord},
    {"Claims::reopen ", "acq_rel -> release",
     "of the word: only a shutdown meanwhile needs it; no program of payload has one; "
     "and "
     "of the term, as above",
     2},
    {"Ring::extent ", "acquire -> relaxed",
     "the border alone: the word or the slot read before orders it"},
    {"Ring::reopen_ahead ", "release -> relaxed", "the exchange that follows releases"},
    {"Ring::cross_border ", "release -> relaxed",
     "only the thread that has the draw lock draws by it, and the lock releases"},
    {"Ring::opened_ahead ", "acquire -> relaxed",
     "looked at after failed_, which acquires what came before the failure"},
    {"Ring::is_committed ", "acquire -> relaxed",
     "a hint: it chooses the position to wait for, and the look that follows acquires"},
    {"Termination::fail termination.hpp:", "left out",
     "read by checkpoint() alone, which no program calls"},
    {"DrawPath::Pause::announce ", "release -> relaxed",
     "the ring's close, or the draw lock, releases what came before"},
    {"DrawPath::Pause::~Pause ", "release -> relaxed",
     "the draw lock releases when it is given back"},
    {"Termination::fail ", "release -> relaxed", kByTheTail},
    {"Termination::shut_down ", "release -> relaxed", kByTheTail},
    {"Termination::is_down ", "acquire -> relaxed", kByTheTail},
    {"Termination::has_failed ", "acquire -> relaxed", kByTheTail},
    {"Termination::forget_failure ", "release -> relaxed", kByTheTail, 2},
    {"DrawPath::draw ", "acquire -> relaxed", kByTheTail},
    {"DrawPath::Pause::announce ", "left out",
     "then a draw beside a reset counts as one before it; the thread that assembles "
     "ahead "
     "would keep the reset waiting, but no program has one"},
    {"Termination::forget_failure ", "left out",
     "of `cut_off_` alone: read by checkpoint(), which no program calls"},
    {"DrawLock::take ", "left out",
     "of `owner_` alone: read by a call from inside a draw, which no program makes"},
    {"Termination::is_broken ", "acquire -> relaxed",
     "set where a device is lost: no program has one"},
};

/// In short the lines that records themselves pass by.
bool is_short(const Line& line) {
  for (const char* name : {"EventCount::prepare", "EventCount::announce",
                           "Claims::release", "Ring::commit ", "Ring::committed"})
    if (line.text.find(name) != std::string::npos) return true;
  return false;
}

TEST(Mutants, AreFound) {
  Mutants({std::begin(kTries), std::end(kTries)},
          {std::begin(kFiles), std::end(kFiles)},
          {std::begin(kKnown), std::end(kKnown)}, long_form() ? nullptr : is_short)
      .expect_found(long_form() ? 300'000 : 50'000);
}

}  // namespace
