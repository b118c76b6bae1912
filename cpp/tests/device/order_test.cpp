// The device serves what the host serves, bit for bit, and every access is ordered.
#include <gtest/gtest.h>

#include <cstdlib>

#include "run.hpp"

namespace {

using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::random_plan;

TEST(DeviceBuffer, ServesWhatTheHostServes) {
  const char* asked = std::getenv("ECHOBUF_SEEDS");
  const int seeds = asked ? std::atoi(asked) : 200;
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Plan plan = random_plan(static_cast<std::uint64_t>(seed));
    const auto outcome = on_device(plan);
    ASSERT_EQ(outcome.batches, on_host(plan));
    ASSERT_EQ(outcome.reports, std::vector<std::string>());
  }
}

}  // namespace
