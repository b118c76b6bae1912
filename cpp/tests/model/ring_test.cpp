// The ring's protocol over all interleavings and all that the memory model allows.
// ECHOBUF_MODEL=long in the environment adds what takes minutes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "device_puts_world.hpp"
#include "payload_world.hpp"
#include "ring_ahead_world.hpp"
#include "ring_world.hpp"
#include "staged_payload_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

bool long_form() {
  const char* form = std::getenv("ECHOBUF_MODEL");
  return form && std::strcmp(form, "long") == 0;
}

struct Case {
  const char* name;
  Result (*run)(const RingPlan&, const Options&);
  RingPlan plan;
  std::uint32_t max_time = 0;
  bool is_long = false;
};

template <class World>
Result run(const RingPlan& plan, const Options& options) {
  return explore<World>(plan, options);
}

RingPlan plan(std::uint64_t capacity, std::uint64_t runs0, std::uint64_t runs1,
              std::uint64_t run = 1) {
  RingPlan plan;
  plan.capacity = capacity;
  plan.runs[0] = runs0;
  plan.runs[1] = runs1;
  plan.run = run;
  return plan;
}
/// Records of `size0` and `size1` units, of so many.
RingPlan of_units(std::uint64_t units, std::uint64_t size0, std::uint64_t size1,
                  RingPlan plan) {
  plan.units = units;
  plan.sizes[0] = size0;
  plan.sizes[1] = size1;
  return plan;
}
RingPlan wraps_from(std::uint64_t unit, RingPlan plan) {
  plan.wrap_from = unit;
  return plan;
}
/// Through so many slots and units of staging.
RingPlan staged(std::uint64_t slots, std::uint64_t units, RingPlan plan) {
  plan.staged_slots = slots;
  plan.staged_units = units;
  return plan;
}
RingPlan second_closes(RingPlan plan) {
  plan.second_closes = true;
  return plan;
}
RingPlan looks(std::uint64_t n, RingPlan plan) {
  plan.keep = n;
  return plan;
}
RingPlan ahead(std::uint64_t n, RingPlan plan) {
  plan.ahead = n;
  return plan;
}
RingPlan consumer_opens(RingPlan plan) {
  plan.consumer_opens = true;
  return plan;
}
RingPlan gives_up(RingPlan plan) {
  plan.gives_up = true;
  return plan;
}
RingPlan put_times_out(RingPlan plan) {
  plan.put_deadline = 1;
  return plan;
}
RingPlan next_times_out(RingPlan plan) {
  plan.next_deadline = 1;
  return plan;
}

std::vector<Case> cases() {
  constexpr auto take = run<PutAndTake>;
  constexpr auto claim = run<ClaimAndLook>;
  constexpr auto turn = run<TakeInTurn>;
  constexpr auto reset = run<PutAndReset>;
  constexpr auto payload = run<PutAndTakePayload>;
  constexpr auto claim_payload = run<ClaimPayloadAndLook>;
  constexpr auto reset_payload = run<PutPayloadAndReset>;
  constexpr auto payload_ahead = run<PutPayloadAhead<2>>;
  constexpr auto payload_ahead3 = run<PutPayloadAhead<3>>;
  constexpr auto through_staging = run<PutThroughStaging>;
  constexpr auto on_device = run<PutOnDevice>;
  constexpr auto one_ahead = run<PutAhead<2>>;
  constexpr auto two_ahead = run<PutAhead<3>>;
  return {
      {"TwoProducersOneSlot", take, plan(1, 1, 1)},
      {"TwoProducersTwoSlots", take, plan(2, 1, 1)},
      {"OneProducerGoesAround", take, plan(2, 3, 0)},
      {"RunLargerThanTheRing", take, plan(1, 1, 0, 3)},
      {"CloseAtAnyTime", take, second_closes(plan(1, 2, 0))},
      {"PutTimesOut", take, put_times_out(plan(1, 2, 0)), 1},
      {"NextTimesOut", take, next_times_out(plan(1, 2, 0)), 1},
      {"TwoConsumersAndTheEnd", turn, plan(1, 0, 0)},
      {"ClaimsThatDoNotWait", claim, looks(2, plan(1, 1, 2))},
      {"ClaimsThatDoNotWaitTwoSlots", claim, looks(2, plan(2, 2, 2))},
      {"Reset", reset, plan(2, 1, 1)},
      {"ResetInOneSlot", reset, plan(1, 1, 1)},
      {"ResetOfRuns", reset, plan(3, 1, 1, 2)},
      {"Ahead", one_ahead, plan(1, 1, 0)},
      {"AheadGoesAround", one_ahead, ahead(2, plan(1, 2, 0))},
      {"AheadByTheConsumer", one_ahead, consumer_opens(ahead(2, plan(1, 2, 0)))},
      {"AheadGivesUp", one_ahead, gives_up(ahead(2, plan(1, 2, 0)))},
      {"AheadGivesUpALatePut", two_ahead, gives_up(ahead(0, plan(2, 0, 1)))},
      {"AheadBesideAClose", two_ahead, second_closes(ahead(0, plan(1, 0, 0)))},
      {"PayloadGoesAround", payload, of_units(3, 2, 0, plan(3, 3, 0))},
      {"PayloadCloseAtAnyTime", payload,
       second_closes(of_units(3, 2, 1, plan(2, 1, 0)))},
      {"PayloadClaims", claim_payload, looks(2, of_units(3, 2, 1, plan(2, 1, 2)))},
      {"PayloadClaimsOfNone", claim_payload,
       looks(2, of_units(3, 2, 0, plan(2, 2, 2)))},
      {"PayloadReset", reset_payload, of_units(3, 2, 1, plan(2, 1, 1))},
      {"PayloadResetFull", reset_payload, of_units(3, 2, 2, plan(2, 1, 1))},
      {"PayloadResetOfRuns", reset_payload, of_units(5, 2, 1, plan(3, 1, 1, 2))},
      {"PayloadAhead", payload_ahead, of_units(3, 2, 0, plan(2, 1, 0))},
      {"PayloadWrapsEarly", payload, wraps_from(2, of_units(4, 1, 0, plan(3, 3, 0)))},
      {"PayloadWrapsEarlyClaims", claim_payload,
       wraps_from(2, looks(2, of_units(4, 2, 1, plan(2, 1, 2))))},
      {"StagedSlots", through_staging, staged(1, 4, of_units(4, 1, 0, plan(3, 3, 0)))},
      {"StagedUnits", through_staging, staged(2, 2, of_units(8, 2, 0, plan(4, 3, 0)))},
      {"StagedUnitsGoAround", through_staging,
       staged(3, 3, of_units(8, 2, 0, plan(4, 4, 0))), 0, true},
      {"StagedRuns", through_staging, staged(2, 3, of_units(8, 2, 0, plan(4, 2, 0, 2))),
       0, true},
      {"OnDevice", on_device, staged(1, 0, plan(1, 3, 0))},
      {"OnDeviceBesideTheHost", on_device, looks(2, staged(1, 0, plan(2, 4, 0))), 0,
       true},
      {"OnDeviceBesideTheHostOneSlot", on_device,
       looks(2, staged(1, 0, plan(1, 3, 0)))},
      {"TwoProducersThreeSlots", take, plan(3, 1, 1), 0, true},
      {"RunsWrapAround", take, plan(3, 2, 0, 2), 0, true},
      {"CloseBesideAPut", take, second_closes(plan(2, 1, 1)), 0, true},
      {"TwoProducersPutTimesOut", take, put_times_out(plan(1, 1, 1)), 1, true},
      {"TwoProducersNextTimesOut", take, next_times_out(plan(1, 1, 1)), 1, true},
      {"TwoProducersOneSlotThreeRecords", take, plan(1, 2, 1), 0, true},
      {"CloseBesidePuts", take, second_closes(plan(1, 2, 1)), 0, true},
      {"AheadTwoSlots", one_ahead, ahead(2, plan(2, 2, 0)), 0, true},
      {"AheadGivesUpTwo", one_ahead, gives_up(ahead(2, plan(2, 2, 0))), 0, true},
      {"AheadBesideAPut", two_ahead, ahead(0, plan(1, 0, 1)), 0, true},
      {"AheadBesidePuts", two_ahead, plan(2, 0, 1), 0, true},
      {"AheadBesidePutsOneSlot", two_ahead, plan(1, 0, 1), 0, true},
      {"AheadGivesUpBesidePuts", two_ahead, gives_up(plan(2, 0, 1)), 0, true},
      {"AheadBesideACloseAndAPut", two_ahead, second_closes(plan(1, 0, 0)), 0, true},
      {"AheadBesideACloseAndPuts", two_ahead, second_closes(plan(1, 1, 0)), 0, true},
      {"TwoConsumers", turn, plan(1, 1, 0), 0, true},
      {"PayloadOfTwoProducers", payload, of_units(3, 2, 1, plan(2, 1, 1)), 0, true},
      {"PayloadRuns", payload, of_units(5, 2, 0, plan(3, 2, 0, 2)), 0, true},
      {"PayloadCloseBesidePuts", payload,
       second_closes(of_units(3, 2, 1, plan(2, 2, 0))), 0, true},
      {"PayloadAheadGoesAround", payload_ahead,
       ahead(2, of_units(3, 2, 0, plan(2, 2, 0))), 0, true},
      {"PayloadAheadBesideAPut", payload_ahead3,
       ahead(0, of_units(3, 2, 1, plan(2, 1, 1))), 0, true},
  };
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class RingModel : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, RingModel, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.name;
                         });

TEST_P(RingModel, HoldsInEveryExecution) {
  const Case& c = GetParam();
  if (c.is_long && !long_form()) GTEST_SKIP() << "takes minutes: ECHOBUF_MODEL=long";
  Options options;
  options.max_time = c.max_time;
  const Result result = c.run(c.plan, options);
  EXPECT_TRUE(result.ok) << result.failure;
  EXPECT_TRUE(result.ok == result.complete) << "not all states fit";
  EXPECT_GT(result.outcomes.size(), 0u);
  for (const std::string& line : result.ok ? std::vector<std::string>() : result.trace)
    ADD_FAILURE() << line;
  RecordProperty("states", std::to_string(result.states));
  std::printf("%llu states, %llu steps, %llu ends, %.1f s\n",
              static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.steps),
              static_cast<unsigned long long>(result.ends), result.seconds);
}

}  // namespace
