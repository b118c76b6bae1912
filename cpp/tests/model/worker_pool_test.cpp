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
template <std::uint64_t Items>
Result revoke(const Options& options) {
  RevokePlan plan;
  plan.items = Items;
  return explore<RevokeAndPublish>(plan, options);
}

TEST(PoolModel, AllThatIsOfferedIsCommitted) { expect_none(offer_and_settle({})); }

TEST(PoolModel, EachItemAndEachPlaceIsTakenOnce) {
  const Result result = take_apart({});
  expect_none(result);
  EXPECT_EQ(result.outcomes.size(), 4);  // either item, in either place
}

constexpr const char* kWithSubmitted =
    "what belongs to an item comes with the number of those submitted";
constexpr const char* kByTheLock =
    "who commits has the lock after the thread that revokes, which has stopped the "
    "publisher before";
constexpr const char* kOwn = "of what the same thread writes, or who had the lock";

TEST(PoolMutants, AreFound) {
  std::vector<Try> tries = {{"an item revoked", revoke<1>},
                            {"items taken apart", take_apart},
                            {"items revoked", revoke<2>}};
  std::vector<File> files = {{"revoke_world.hpp", 5}, {"worker_hold.hpp", 4}};
  if (long_form()) {
    tries.push_back({"items offered and settled", offer_and_settle});
    files.push_back({"item_board.hpp", 6});
    files.push_back({"pool_world.hpp", 10});
  }
  const std::vector<Known> known = {
      {"RevokeAndPublish::collect_all ", "acquire -> relaxed", kOwn},
      {"RevokeAndPublish::publish ", "acquire -> relaxed",
       "the commit that was seen brings the store of `halted_` with it"},
      {"RevokeAndPublish::revoke ", "release -> relaxed", kByTheLock, 2},
      {"RevokeAndPublish::revoke ", "left out",
       "of `revoked` alone: then the worker makes what is not wanted"},
      {"RevokeAndPublish::revoke ", "acquire -> relaxed", kOwn},
      {"WorkerHold::is_revoked ", "acquire -> relaxed", kByTheLock},
      {"Taken::offer ", "release -> relaxed", kWithSubmitted},
      {"Taken::take ", "acq_rel -> acquire", kWithSubmitted},
      {"Taken::take ", "acq_rel -> release", kWithSubmitted},
      {"Taken::take ", "acq_rel -> relaxed", kWithSubmitted},
      {"Taken::finish ", "acq_rel -> acquire", "only a process that goes on reads it"},
      {"Taken::finish ", "acq_rel -> release", "only a process that goes on reads it"},
      {"Taken::finish ", "acq_rel -> relaxed", "only a process that goes on reads it"},
      {"BasicItemBoard::take ", "left out", "a hint where to begin to look"},
      {"PoolWorld::offer ", "acquire -> relaxed", kOwn},
      {"PoolWorld::offer ", "left out", "whose turn it is: another worker makes it"},
      {"PoolWorld::offer ", "release -> relaxed",
       "of `submitted_` alone: comes with the board's, by way of the worker"},
      {"PoolWorld::collect ", "acquire -> relaxed",
       "of `submitted_` and `oldest_`: of use against a worker that writes nonsense",
       2},
      {"PoolWorld::finish ", "acquire -> relaxed", kOwn, 2},
      {"PoolWorld::finish ", "release -> relaxed",
       "of the board's `oldest`: only a process that goes on reads it"},
      {"PoolWorld::finish ", "left out",
       "of the board's `oldest`: only a process that goes on reads it"}};
  Mutants(tries, files, known).expect_found(300'000);
}

}  // namespace
