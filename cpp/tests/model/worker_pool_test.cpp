// A worker pool commits all that it offered, each item once, and publishes none that it
// revoked unwritten, in any execution; and each change of its protocol that matters is
// found.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "mutants.hpp"
#include "revoke_world.hpp"
#include "worker_pool_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

Result explored(std::uint64_t items, Stop stop, bool looks_first = false) {
  RevokePlan plan;
  plan.items = items;
  plan.stop = stop;
  plan.looks_first = looks_first;
  return explore<RevokeAndPublish>(plan);
}

void expect_none(const Result& result) {
  EXPECT_TRUE(result.ok && result.complete) << result.failure;
  for (const std::string& line : result.ok ? std::vector<std::string>() : result.trace)
    ADD_FAILURE() << line;
  std::printf("%llu states, %llu steps, %.1f s\n",
              static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.steps), result.seconds);
}

class RevokeModel : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Items, RevokeModel, testing::Values(1, 2));

TEST_P(RevokeModel, NothingUnwrittenIsPublished) {
  const Result result = explored(GetParam(), Stop::kFirst);
  expect_none(result);
  // Records written before are published, or some of them, or none.
  EXPECT_EQ(result.outcomes.size(), GetParam() + 1);
}

TEST(RevokeMutants, AreFound) {
  const auto is_found = [](const Result& result) {
    return !result.ok && result.failure.find("nobody wrote") != std::string::npos;
  };
  EXPECT_TRUE(is_found(explored(1, Stop::kNever))) << "publishing is not stopped";
  EXPECT_TRUE(is_found(explored(1, Stop::kLast))) << "it is stopped too late";
  EXPECT_TRUE(is_found(explored(1, Stop::kFirst, true))) << "the publisher looks first";
}

Result offer_and_settle(const Options& options) {
  return explore<OfferAndSettle>(PoolPlan{}, options);
}
Result take_apart(const Options& options) {
  return explore<TakeApart>(PoolPlan{2, false}, options);
}
Result revoke(const Options& options) {
  return explore<RevokeAndPublish>(RevokePlan{}, options);
}

TEST(PoolModel, AllThatIsOfferedIsCommitted) { expect_none(offer_and_settle({})); }

TEST(PoolModel, EachItemAndEachPlaceIsTakenOnce) {
  const Result result = take_apart({});
  expect_none(result);
  EXPECT_EQ(result.outcomes.size(), 3);  // either worker makes none, one or both
}

TEST(PoolMutants, AreFound) {
  std::vector<Try> tries = {{"tickets revoked", revoke}};
  std::vector<File> files = {{"revoke_world.hpp", 6}};
  if (long_form()) {
    tries.push_back({"tickets given and settled", give_and_settle});
    files.push_back({"worker_pool_world.hpp", 10});
  }
  const std::vector<Known> known = {
      {"RevokeAndPublish::collect revoke_world.hpp:", "release -> relaxed",
       "read by end() alone; by the trainer in GiveAndSettle"},
      {"RevokeAndPublish::publish revoke_world.hpp:", "acquire -> relaxed",
       "the commit that was seen brings the store of `halted_` with it"},
      {"RevokeAndPublish::take_back revoke_world.hpp:", "release -> relaxed",
       "of `halted_` alone: the store of `revoked_` releases it, too"},
      {"RevokeAndPublish::take_back revoke_world.hpp:", "left out",
       "of `revoked_` alone: then the worker makes what is not wanted"},
      {"GiveAndSettle::outstanding ", "acquire -> relaxed",
       "of `own_given_` alone, which the same thread writes"},
      {"GiveAndSettle::give ", "release -> relaxed",
       "of `own_given_` alone: done_ comes behind given_, which releases the position"},
      {"GiveAndSettle::collect_once ", "acquire -> relaxed",
       "of `own_given_` alone: as its store"}};
  Mutants(tries, files, known).expect_found(300'000);
}

}  // namespace
