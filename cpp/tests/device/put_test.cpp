// Records that lie on the device are served as those that were put from the host, and
// every access is ordered.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "consumer.hpp"
#include "producer.hpp"
#include "run.hpp"
#include "tests/rounds.hpp"
#include "watched_calls.hpp"

namespace {

using echobuf::cuda::EventHandle;
using echobuf::cuda::kSuccess;
using echobuf::cuda::StreamHandle;
using Calls = echobuf::cuda::Driver::Calls;

using echobuf::Deadline;
using echobuf::SourceLeaf;
using echobuf::Status;
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

constexpr int kPutSeeds = rounds(100);

void expect_the_hosts(int replays) {
  const char* asked = std::getenv("ECHOBUF_SEEDS");
  const int seeds = asked ? std::atoi(asked) : kPutSeeds;
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan = random_plan(static_cast<std::uint64_t>(seed));
    plan.replays = replays;
    plan.device_puts = seed % 2 == 0 ? 4 : 2;  // all, or half of them
    const auto outcome = on_device(plan);
    ASSERT_EQ(outcome.error, "");
    ASSERT_TRUE(outcome.batches == on_host(plan));
    ASSERT_EQ(outcome.reports, std::vector<std::string>());
  }
}

TEST(DevicePuts, ServeWhatTheHostServes) { expect_the_hosts(0); }
TEST(DevicePuts, ServeTheSameByGraphs) { expect_the_hosts(2); }

TEST(DevicePuts, EndWhereACallIsRefused) {
  for (const char* call : {"cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent"}) {
    for (int nth = 1; nth < 40; nth += 7) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      Plan plan = small_plan();
      plan.device_puts = 4;
      plan.refused = call;
      plan.nth = nth;
      const auto outcome = on_device(plan);
      EXPECT_NE(outcome.error, "");
      EXPECT_EQ(outcome.reports, std::vector<std::string>());
    }
  }
}

/// A plan whose draws are on one stream, so that they wait for no other draw.
Plan plan_of_puts() {
  Plan plan = small_plan();
  plan.device_puts = 4;
  plan.streams = 1;
  return plan;
}

TEST(DevicePuts, AreMissedWhereDrawsDoNotWaitForThem) {
  const auto outcome = on_device(plan_of_puts(), [](Calls& calls) {
    watch(calls);
    calls.stream_wait_event = [](StreamHandle s, EventHandle e, unsigned flags) {
      return e != drawn ? kSuccess : real.stream_wait_event(s, e, flags);
    };
  });
  EXPECT_NE(outcome.reports, std::vector<std::string>());
}

TEST(DevicePuts, AreMissedWhereTheyDoNotWaitForDraws) {
  const auto outcome = on_device(plan_of_puts(), [](Calls& calls) {
    watch(calls);
    calls.stream_wait_event = [](StreamHandle s, EventHandle e, unsigned flags) {
      return s != upload && e == drawn ? kSuccess : real.stream_wait_event(s, e, flags);
    };
  });
  EXPECT_NE(outcome.reports, std::vector<std::string>());
}

/// Several producers put examples that hold their number.
TEST(DevicePuts, GoBesideHostPuts) {
  constexpr std::uint64_t kEach = 120;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan = small_plan();
    plan.options.fields = {{8, 1}, {40, 1}};
    plan.seed = seed;
    std::vector<int> uses(4 * kEach);
    const auto outcome =
        with_device(plan, nullptr, [&](DeviceBuffer& buffer, const auto& driver) {
          std::atomic<int> open = 4;
          const auto produce = [&](std::uint64_t number) {
            const echobuf::cuda::DeviceContext::Scope scope(buffer.backend().context());
            DeviceProducer device(buffer, driver, seed * 4 + number);
            for (std::uint64_t i = 0; i < kEach;) {
              const std::uint64_t n = std::min<std::uint64_t>(1 + i % 5, kEach - i);
              std::vector<std::uint64_t> ids(n);
              std::vector<std::uint64_t> rest(n * 5);
              for (std::uint64_t k = 0; k < n; ++k) {
                ids[k] = number * kEach + i + k;
                std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(k * 5), 5,
                            ids[k]);
              }
              const SourceLeaf leaves[] = {SourceLeaf::of(ids.data()),
                                           SourceLeaf::of(rest.data(), 5)};
              std::uint64_t done = 0;
              if (number % 2 == 0)
                device.put(buffer.term(), leaves, n, 0);
              else
                buffer.put(buffer.term(), leaves, n, 0, done, Deadline::max(), nullptr);
              i += n;
            }
            if (--open == 0) buffer.close();
          };
          std::vector<std::thread> threads;
          for (std::uint64_t p = 0; p < 4; ++p) threads.emplace_back(produce, p);
          Consumer consumer(buffer, driver, 2);
          BatchBytes bytes;
          for (std::uint64_t i = 0;
               consumer.draw(consumer.stream(i), bytes) == Status::kOk; ++i) {
            const std::size_t count = bytes.size() / 48;
            for (std::size_t k = 0; k < count; ++k) {
              std::uint64_t id = 0;
              std::memcpy(&id, bytes.data() + k * 8, 8);
              for (std::size_t j = 0; j < 5; ++j)
                EXPECT_EQ(
                    std::memcmp(bytes.data() + count * 8 + k * 40 + j * 8, &id, 8), 0);
              ++uses.at(id);
            }
          }
          for (std::thread& thread : threads) thread.join();
        });
    EXPECT_EQ(outcome.reports, std::vector<std::string>());
    EXPECT_EQ(uses, std::vector<int>(4 * kEach, 2));
  }
}

}  // namespace
