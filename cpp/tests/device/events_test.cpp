// Each event that is left out is missed: the check of the order can fail.
#include <gtest/gtest.h>

#include "chains.hpp"
#include "run.hpp"
#include "watched_calls.hpp"

namespace {

using echobuf::cuda::EventHandle;
using echobuf::cuda::FunctionHandle;
using echobuf::cuda::kSuccess;
using echobuf::cuda::Result;
using echobuf::cuda::StreamHandle;
using echobuf::test::add_chains;
using echobuf::test::drawn;
using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::real;
using echobuf::test::small_plan;
using echobuf::test::upload;
using echobuf::test::watch;
using Calls = echobuf::cuda::Driver::Calls;

struct Missing {
  const char* what;
  echobuf::test::Change change;
};
void PrintTo(const Missing& missing, std::ostream* out) { *out << missing.what; }

const Missing kMissing[] = {
    {"TheUploadsWaitForDraws",
     [](Calls& calls) {
       watch(calls);
       calls.stream_wait_event = [](StreamHandle s, EventHandle e, unsigned flags) {
         return s == upload ? kSuccess : real.stream_wait_event(s, e, flags);
       };
     }},
    {"TheDrawsWaitForUploads",
     [](Calls& calls) {
       watch(calls);
       calls.stream_wait_event = [](StreamHandle s, EventHandle e, unsigned flags) {
         return e != drawn ? kSuccess : real.stream_wait_event(s, e, flags);
       };
     }},
    {"TheDrawsWaitForDraws",
     [](Calls& calls) {
       watch(calls);
       calls.stream_wait_event = [](StreamHandle s, EventHandle e, unsigned flags) {
         return s != upload && e == drawn ? kSuccess
                                          : real.stream_wait_event(s, e, flags);
       };
     }},
    {"TheRecordOfADraw",
     [](Calls& calls) {
       watch(calls);
       calls.event_record = [](EventHandle e, StreamHandle s) {
         return e == drawn ? kSuccess : real.event_record(e, s);
       };
     }},
#ifndef __SANITIZE_THREAD__  // it may find the race itself: staging is written too soon
    {"TheRecordOfAnUpload",
     [](Calls& calls) {
       watch(calls);
       calls.event_record = [](EventHandle e, StreamHandle s) {
         return e != drawn ? kSuccess : real.event_record(e, s);
       };
     }},
    {"TheHostsWaitForACopy",
     [](Calls& calls) {
       watch(calls);
       calls.event_query = [](EventHandle) { return kSuccess; };
       calls.event_synchronize = [](EventHandle) { return kSuccess; };
     }},
#endif
};

// For batches that come from graphs alone.
const Missing kMissingInReplays[] = {
    {"TheRecordBehindALaunch",
     [](Calls& calls) {
       watch(calls);  // it comes before the launch
       calls.event_record = [](EventHandle e, StreamHandle s) {
         return e == drawn ? kSuccess : real.event_record(e, s);
       };
       calls.launch = [](FunctionHandle f, unsigned gx, unsigned gy, unsigned gz,
                         unsigned bx, unsigned by, unsigned bz, unsigned shared,
                         StreamHandle s, void** arguments, void** extra) {
         const Result result =
             real.launch(f, gx, gy, gz, bx, by, bz, shared, s, arguments, extra);
         const bool plan = bx == echobuf::kDrawParts;
         if (plan) real.event_record(drawn, s);
         return result;
       };
     }},
};

class MissingEvent : public testing::TestWithParam<Missing> {};

void expect_found(const Missing& missing, int replays, bool chains = false,
                  bool claimed = false) {
  Plan plan = small_plan();
  plan.claimed = claimed;
  if (chains) {
    add_chains(plan.options);
    plan.examples = 40;  // each pixel is an access that is checked
  }
  plan.replays = replays;
  constexpr int kSeeds = 40;  // of some, one in two does not show it
  for (plan.seed = 0; plan.seed < kSeeds; ++plan.seed) {
    bool found = false;
    for (const std::string& report : on_device(plan, missing.change).reports)
      found |= report.rfind("race", 0) == 0;
    if (found) return;
  }
  FAIL() << kSeeds << " seeds without a report";
}

TEST_P(MissingEvent, IsFound) { expect_found(GetParam(), 0); }
#ifndef __SANITIZE_THREAD__  // it would take minutes
TEST_P(MissingEvent, IsFoundWhereChainsAreMade) { expect_found(GetParam(), 0, true); }
#endif
TEST_P(MissingEvent, IsFoundWhereOthersWrite) {
  expect_found(GetParam(), 0, false, true);
}
INSTANTIATE_TEST_SUITE_P(Of, MissingEvent, testing::ValuesIn(kMissing),
                         [](const auto& info) { return info.param.what; });

class MissingEventInReplays : public testing::TestWithParam<Missing> {};

TEST_P(MissingEventInReplays, IsFound) { expect_found(GetParam(), 4); }
const auto name_of = [](const auto& info) { return info.param.what; };
INSTANTIATE_TEST_SUITE_P(Of, MissingEventInReplays, testing::ValuesIn(kMissing),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Too, MissingEventInReplays,
                         testing::ValuesIn(kMissingInReplays), name_of);

TEST(MissingEvent, NothingIsFoundWhereNothingIsMissing) {
  Plan plan = small_plan();
  for (plan.seed = 0; plan.seed < 10; ++plan.seed) {
    plan.replays = plan.seed % 2 == 0 ? 0 : 4;
    plan.claimed = plan.seed % 4 < 2;
    const auto outcome = on_device(plan, watch);
    EXPECT_EQ(outcome.reports, std::vector<std::string>());
    EXPECT_EQ(outcome.batches, on_host(plan));
  }
}

}  // namespace
