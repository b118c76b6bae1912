// Tickets that are taken back from worker processes are not published, in any
// execution; and what would be if the order were another.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "revoke_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

Result explored(std::uint64_t tickets, Stop stop, bool looks_first = false) {
  RevokePlan plan;
  plan.tickets = tickets;
  plan.stop = stop;
  plan.looks_first = looks_first;
  return explore<RevokeAndPublish>(plan);
}

class RevokeModel : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Tickets, RevokeModel, testing::Values(1, 2));

TEST_P(RevokeModel, NothingUnwrittenIsPublished) {
  const Result result = explored(GetParam(), Stop::kFirst);
  EXPECT_TRUE(result.ok && result.complete) << result.failure;
  for (const std::string& line : result.ok ? std::vector<std::string>() : result.trace)
    ADD_FAILURE() << line;
  // Records written before are published, or some of them, or none.
  EXPECT_EQ(result.outcomes.size(), GetParam() + 1);
  std::printf("%llu states, %llu steps, %.1f s\n",
              static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.steps), result.seconds);
}

TEST(RevokeMutants, AreFound) {
  const auto is_found = [](const Result& result) {
    return !result.ok && result.failure.find("nobody wrote") != std::string::npos;
  };
  EXPECT_TRUE(is_found(explored(1, Stop::kNever))) << "publishing is not stopped";
  EXPECT_TRUE(is_found(explored(1, Stop::kLast))) << "it is stopped too late";
  EXPECT_TRUE(is_found(explored(1, Stop::kFirst, true))) << "the publisher looks first";
}

}  // namespace
