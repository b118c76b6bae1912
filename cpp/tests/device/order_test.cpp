// The device serves what the host serves, bit for bit, and every access is ordered.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "run.hpp"
#include "tests/rounds.hpp"

namespace {

using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::random_plan;

constexpr int kSeeds = echobuf::test::rounds(100);

void expect_hosts_batches(bool by_graphs) {
  const char* asked = std::getenv("ECHOBUF_SEEDS");
  const int seeds = asked ? std::atoi(asked) : kSeeds;
  for (int seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan = random_plan(static_cast<std::uint64_t>(seed));
    if (by_graphs) plan.replays = seed % 3 == 0 ? 4 : 2;  // all, or half of them
    const auto outcome = on_device(plan);
    ASSERT_EQ(outcome.batches, on_host(plan));
    ASSERT_EQ(outcome.reports, std::vector<std::string>());
  }
}

TEST(DeviceBuffer, ServesWhatTheHostServes) { expect_hosts_batches(false); }
TEST(DeviceBuffer, ServesTheSameByGraphs) { expect_hosts_batches(true); }

TEST(DeviceBuffer, EchoesWhileUpstreamIsBehind) {
  Plan plan;
  plan.options.fields = {{24, 1}, {8, 1}};
  plan.options.automatic = true;
  plan.options.window = 40;
  plan.options.batch_size = 6;
  plan.options.max_factor = 4;
  plan.examples = 150;
  for (plan.seed = 0; plan.seed < 20; ++plan.seed) {
    plan.replays = static_cast<int>(plan.seed % 3 * 2);
    const auto outcome = on_device(plan);
    EXPECT_EQ(outcome.reports, std::vector<std::string>());
    // Records are told apart by their first byte; each is served once to four times.
    std::map<std::uint8_t, int> uses;
    for (const auto& batch : outcome.batches) {
      const std::size_t count = batch.size() / 32;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t id = batch[i * 24];
        EXPECT_EQ(batch[count * 24 + i * 8], id) << "a record in two pieces";
        ++uses[id];
      }
    }
    EXPECT_EQ(uses.size(), plan.examples);
    for (const auto& [id, count] : uses) EXPECT_TRUE(count >= 1 && count <= 4) << count;
  }
}

}  // namespace
