// Every call of the driver that can be refused, refused in turn: an error that says
// which, nobody waits for ever, and everything is given back.
#include <gtest/gtest.h>

#include <string>

#include "run.hpp"

namespace {

using echobuf::test::on_device;
using echobuf::test::Outcome;
using echobuf::test::Plan;
using echobuf::test::small_plan;

class RefusedCall : public testing::TestWithParam<const char*> {};

TEST_P(RefusedCall, IsSaidAndLeavesNothingBehind) {
  Plan plan = small_plan();
  plan.examples = 40;
  plan.replays = 2;
  plan.refused = GetParam();
  int refusals = 0;
  for (plan.nth = 1; plan.nth < 40; plan.nth += plan.nth < 8 ? 1 : 7) {
    plan.seed = static_cast<std::uint64_t>(plan.nth);
    const Outcome outcome = on_device(plan);
    EXPECT_EQ(outcome.reports, std::vector<std::string>()) << plan.nth;
    if (outcome.error.empty()) continue;
    ++refusals;
    EXPECT_NE(outcome.error.find(GetParam()), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos)
        << outcome.error;
  }
  EXPECT_GT(refusals, 0);
}

// Not those by which the test itself makes streams and targets.
INSTANTIATE_TEST_SUITE_P(Of, RefusedCall,
                         testing::Values("cuInit", "cuDeviceGetCount", "cuDeviceGet",
                                         "cuDevicePrimaryCtxRetain", "cuMemHostAlloc",
                                         "cuEventCreate", "cuMemcpyHtoDAsync_v2",
                                         "cuThreadExchangeStreamCaptureMode",
                                         "cuStreamGetCaptureInfo", "cuStreamWaitEvent",
                                         "cuEventRecord", "cuEventQuery",
                                         "cuStreamGetId", "cuLaunchKernel"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
