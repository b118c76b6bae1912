// Each event that is left out is missed: the check of the order can fail.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "run.hpp"

namespace {

using echobuf::cuda::EventHandle;
using echobuf::cuda::kSuccess;
using echobuf::cuda::Result;
using echobuf::cuda::StreamHandle;
using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::small_plan;
using Calls = echobuf::cuda::Driver::Calls;

Calls real;
std::atomic<EventHandle> drawn;    // the first event that a buffer makes
std::atomic<StreamHandle> upload;  // the first stream

Result create_event(EventHandle* event, unsigned flags) {
  const Result result = real.event_create(event, flags);
  EventHandle none = nullptr;
  drawn.compare_exchange_strong(none, *event);
  return result;
}
Result create_stream(StreamHandle* stream, unsigned flags) {
  const Result result = real.stream_create(stream, flags);
  StreamHandle none = nullptr;
  upload.compare_exchange_strong(none, *stream);
  return result;
}

void watch(Calls& calls) {
  real = calls;
  drawn = nullptr;
  upload = nullptr;
  calls.event_create = create_event;
  calls.stream_create = create_stream;
}

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

class MissingEvent : public testing::TestWithParam<Missing> {};

TEST_P(MissingEvent, IsFound) {
  Plan plan = small_plan();
  for (plan.seed = 0; plan.seed < 10; ++plan.seed) {
    bool found = false;
    for (const std::string& report : on_device(plan, GetParam().change).reports)
      found |= report.rfind("race", 0) == 0;
    if (found) return;
  }
  FAIL() << "10 seeds without a report";
}
INSTANTIATE_TEST_SUITE_P(Of, MissingEvent, testing::ValuesIn(kMissing),
                         [](const auto& info) { return info.param.what; });

TEST(MissingEvent, NothingIsFoundWhereNothingIsMissing) {
  Plan plan = small_plan();
  for (plan.seed = 0; plan.seed < 10; ++plan.seed) {
    const auto outcome = on_device(plan, watch);
    EXPECT_EQ(outcome.reports, std::vector<std::string>());
    EXPECT_EQ(outcome.batches, on_host(plan));
  }
}

}  // namespace
