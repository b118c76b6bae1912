// The whole Buffer in its smallest forms: the same search over all interleavings, with
// every plain access of the core watched for races. ECHOBUF_MODEL=long adds more.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "buffer_ahead_world.hpp"
#include "buffer_world.hpp"

namespace {

using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

bool long_form() {
  const char* form = std::getenv("ECHOBUF_MODEL");
  return form && std::strcmp(form, "long") == 0;
}

template <class World>
void expect_holds(const BufferPlan& plan, std::size_t outcomes) {
  const Result result = explore<World>(plan);
  EXPECT_TRUE(result.ok) << result.failure;
  EXPECT_TRUE(!result.ok || result.complete) << "not all states fit";
  EXPECT_EQ(result.outcomes.size(), outcomes);
  if (!result.ok)
    for (const std::string& line : result.trace) ADD_FAILURE() << line;
  std::printf("%llu states, %llu steps, %llu ends, %.1f s\n",
              static_cast<unsigned long long>(result.states),
              static_cast<unsigned long long>(result.steps),
              static_cast<unsigned long long>(result.ends), result.seconds);
}

TEST(BufferModel, ServesEverything) { expect_holds<PutAndNext<2>>({1}, 1); }
TEST(BufferModel, FailsAtAnyTime) { expect_holds<PutAndNext<2>>({1, true}, 2); }
TEST(BufferModel, ShutsDownAtAnyTime) {
  expect_holds<PutAndNext<2>>({1, false, true}, 2);
}
TEST(BufferModel, KeepsAFailureToTheEpochOpenedAhead) {
  expect_holds<PutAndGoAhead>({0, true}, 1);
}
TEST(BufferModel, ShutsDownBesideOpeningAhead) {
  expect_holds<ShutDownBesideOpening>({}, 2);
}
TEST(BufferModel, ForgetsAFailureAheadWhenReset) {
  expect_holds<ResetOfAFailureAhead>({}, 1);
}
TEST(BufferModel, FailsATermAndNotTheNext) {
  expect_holds<FailATermBesideRestart>({}, 1);
}

class BufferModelLong : public testing::Test {
  void SetUp() override {
    if (!long_form()) GTEST_SKIP() << "takes minutes: ECHOBUF_MODEL=long";
  }
};
TEST_F(BufferModelLong, ServesEverythingThroughAFullRing) {
  expect_holds<PutAndNext<2>>({3}, 1);
}
TEST_F(BufferModelLong, IsResetBesideAWaitingConsumer) {
  expect_holds<PutAndRestart<2>>({}, 1);
}
TEST_F(BufferModelLong, ServesAnEpochOpenedAhead) {
  expect_holds<PutAndGoAhead>({1}, 1);
}
TEST_F(BufferModelLong, ServesBothEpochs) {
  expect_holds<PutAndGoAhead>({1, false, false, 1}, 1);
}
TEST_F(BufferModelLong, ServesAnEpochBesideAFailureAhead) {
  expect_holds<PutAndGoAhead>({1, true, false, 1}, 2);
}
TEST_F(BufferModelLong, ServesAnEpochBesideAShutdownAhead) {
  expect_holds<PutAndGoAhead>({1, false, true, 1}, 3);
}
TEST_F(BufferModelLong, GoesAheadAtAnyTime) {
  expect_holds<PutAndGoAheadAtAnyTime>({1}, 1);
}
TEST_F(BufferModelLong, GivesUpForAnEpochOpenedAhead) {
  expect_holds<PutAndGoAheadAtAnyTime>({1, false, false, 1}, 2);
}
TEST_F(BufferModelLong, ServesTwoProducers) { expect_holds<PutAndNext<3>>({1}, 1); }

}  // namespace
