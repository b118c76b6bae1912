// Chains on the device make what they make on the host, bit for bit, in order.
#include "chains.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "run.hpp"
#include "stage.hpp"
#include "tests/threads_at_once.hpp"

namespace {

namespace chains = echobuf::test::chains;
namespace simulated = echobuf::simulated;
using echobuf::DrawPart;
using echobuf::DrawParts;
using echobuf::test::add_chains;
using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::random_plan;
using echobuf::transform::KnownStage;
using echobuf::transform::StageLaunch;

#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kChainSeeds = 2;
#else
constexpr std::uint64_t kChainSeeds = 10;
#endif

void expect_hosts_chains(bool by_graphs) {
  for (std::uint64_t seed = 0; seed < kChainSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Plan plan = random_plan(seed);
    add_chains(plan.options);
    if (by_graphs) plan.replays = seed % 3 == 0 ? 4 : 2;  // all, or half of them
    const auto outcome = on_device(plan);
    ASSERT_EQ(outcome.batches, on_host(plan));
    ASSERT_EQ(outcome.reports, std::vector<std::string>());
  }
}

TEST(DeviceChains, MakeWhatTheHostMakes) { expect_hosts_chains(false); }
TEST(DeviceChains, MakeTheSameByGraphs) { expect_hosts_chains(true); }

TEST(DeviceChains, WithManyStagesAreMadeForSomeRowsAtATime) {
  using echobuf::cuda::LeafStages;
  const auto plan = chains::leaf_plan<chains::ResizeAndFlip, chains::JitterAndMix>();
  const LeafStages stages(*plan->program());
  // Two images of bytes, own and the partner's, rounded up, and two sums.
  EXPECT_EQ(stages.scratch_bytes(), 2 * 128 + 2 * 8);
  EXPECT_EQ(stages.rows_at_once(10), 10u);
  EXPECT_EQ(stages.rows_at_once(1u << 30), echobuf::cuda::kScratchBytes / 272);
}

/// Blocks as the simulated driver runs them.
struct Stepwise {
  template <bool summing, class Known>
  static void run(const simulated::Launch& grid, const Known& stage,
                  const StageLaunch& launch, const DrawParts& parts) {
    simulated::run_stage<summing>(grid, stage, launch, parts);
  }
};

/// Blocks whose threads run at once.
struct AtOnce {
  template <bool summing, class Known>
  static void run(const simulated::Launch& grid, const Known& stage,
                  const StageLaunch& launch, const DrawParts& parts) {
    for (std::uint32_t y = 0; y < grid.grid.y; ++y)
      for (std::uint32_t x = 0; x < grid.grid.x; ++x) {
        echobuf::transform::BlockMemory<Known, summing> memory;
        echobuf::test::run_at_once(grid.block.x, [&](const auto& threads) {
          echobuf::transform::run_block<summing>(threads, stage, launch, parts, x, y,
                                                 memory);
        });
      }
  }
};

/// Images of records that lie one behind another, and what a stage makes of them.
struct SomeImages {
  static constexpr std::uint32_t kRecords = 5;
  static constexpr std::size_t kStride = 256;
  static constexpr std::uint32_t kMix = 9;

  std::vector<std::uint64_t> slots;
  DrawParts parts;

  SomeImages() : slots(kRecords * kStride / 8) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(slots.data());
    for (std::size_t i = 0; i < kRecords * kStride; ++i)
      bytes[i] = static_cast<std::uint8_t>(i * 37 + i / 19);
    parts.count = 1;
    parts.batch = {echobuf::transform::transform_key(1, 2), 1000, {}};
    DrawPart& part = parts.part[0];
    part = {};
    part.order = {kRecords, echobuf::permutation_key(3, 4, 5)};
    part.slots = reinterpret_cast<std::uint64_t>(slots.data());
    part.capacity = part.count = kRecords;
  }

  template <class Blocks, class Known>
  std::vector<std::uint8_t> run(const Known& stage) const {
    const echobuf::transform::StagePlan plan = stage.stage();
    const auto size = static_cast<std::size_t>(plan.target.size());
    std::vector<std::uint64_t> target(kRecords * 2 * size / 8 + 1);
    std::vector<std::int64_t> sums(2 * kRecords * stage.tile().count());
    StageLaunch launch;
    launch.stride = kStride;
    launch.count = kRecords;
    launch.mix = kMix;
    launch.target[0] = reinterpret_cast<std::uint64_t>(target.data());
    launch.target[1] = launch.target[0] + kRecords * size;
    launch.target_bytes = size;
    launch.sums = reinterpret_cast<std::uint64_t>(sums.data());
    simulated::Launch grid{{kRecords * stage.tile().count(), 2, 1}, {256, 1, 1}, 0};
    if (plan.statistic >= 0) Blocks::template run<true>(grid, stage, launch, parts);
    if (plan.mix >= 0) grid.grid.y = 1;
    Blocks::template run<false>(grid, stage, launch, parts);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(target.data());
    return {bytes, bytes + kRecords * 2 * size};
  }
};

template <class S>
class Stages : public testing::Test {};
using SomeStages = testing::Types<chains::CropAndNormalize, chains::ResizeAndFlip,
                                  chains::JitterAndMix, chains::MixLabels>;
TYPED_TEST_SUITE(Stages, SomeStages);

// Chains as NVRTC compiles them: operations whose settings are constants, weights in a
// table.
TYPED_TEST(Stages, ThatAreKnownMakeWhatAnyStageMakes) {
  const SomeImages images;
  const echobuf::transform::Stage settings = chains::stage_of<TypeParam>();
  const auto any = images.run<Stepwise>(simulated::AnyStage(settings));
  EXPECT_EQ(images.run<Stepwise>(KnownStage<TypeParam>()), any);
  const auto half = any.size() / 2;
  EXPECT_NE(std::vector(any.begin(), any.begin() + half), std::vector(half, any[0]));
}

TYPED_TEST(Stages, MakeTheSameByThreadsThatRunAtOnce) {
  const SomeImages images;
  const KnownStage<TypeParam> stage;
  EXPECT_EQ(images.run<AtOnce>(stage), images.run<Stepwise>(stage));
}

}  // namespace
