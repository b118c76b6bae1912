#include "ring_world.hpp"

#include <gtest/gtest.h>

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

template <class World>
Result expect_holds(const RingPlan& plan, const Options& options = {}) {
  Options o = options; o.max_states=3000000; const Result r = explore<World>(plan, o);
  EXPECT_TRUE(r.ok && r.complete) << r.failure;
  if (!r.ok)
    for (const std::string& line : r.trace) ADD_FAILURE() << line;
  std::printf("%10llu states %10llu steps %8llu ends %6.2f s\n",
              (unsigned long long)r.states, (unsigned long long)r.steps,
              (unsigned long long)r.ends, r.seconds);
  return r;
}

TEST(RingModel, Small) {
  RingPlan plan;
  for (std::uint64_t capacity : {2}) {
    plan.capacity = capacity;
    expect_holds<PutAndTake<3>>(plan);
  }
  return;
  plan.runs[0] = 2;
  expect_holds<PutAndTake<3>>(plan);
}

}  // namespace
