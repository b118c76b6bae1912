// Chains of operations for the tests on the simulated device.
#pragma once

#include <cstring>
#include <memory>

#include "echobuf/options.hpp"
#include "echobuf/transform/chain_plan.hpp"

namespace echobuf::test {

namespace chains {

using namespace transform;  // NOLINT(google-build-using-namespace)

inline constexpr Extent kIn{7, 9, 3};
inline constexpr Extent kOut{6, 5, 3};
inline constexpr std::int32_t kClasses = 256;

constexpr Layout bytes_of(const Extent& e, bool planar = false) {
  if (planar)
    return {e, NumberType::kUint8, 1, e.width, 1, std::int64_t{e.height} * e.width};
  return {e, NumberType::kUint8, 1, std::int64_t{e.width} * e.channels, e.channels, 1};
}
constexpr Layout planar(const Extent& e, NumberType type, std::uint32_t bytes) {
  return {e, type, bytes, e.width, 1, std::int64_t{e.height} * e.width};
}

constexpr StagePlan plan_of(const Layout& source, const Layout& target) {
  StagePlan plan{};
  plan.source = source;
  plan.target = target;
  plan.fill = plan.statistic = plan.mix = -1;
  return plan;
}

/// Stages as a kernel has them: see transform/stage_ops.hpp.
struct CropAndNormalize {
  static constexpr int kCount = 4;
  static constexpr StagePlan plan() {
    StagePlan plan = plan_of(bytes_of(kIn), planar(kOut, NumberType::kBfloat16, 2));
    plan.after = 2;
    plan.count = kCount;
    plan.fill = 0;
    return plan;
  }
  template <int i>
  static constexpr auto op() {
    if constexpr (i == 0)
      return Crop{kIn, 6, 5, -2, -2, 6, 9, Border::kFill, 0, {7, 255, 0}};
    else if constexpr (i == 1)
      return Flip{kOut, Axis::kColumn, 0.5};
    else if constexpr (i == 2)
      return Normalize{1.0f / 255, {0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.4f}};
    else
      return Round{NumberType::kFloat16};
  }
  static constexpr std::uint32_t number(int i) { return static_cast<std::uint32_t>(i); }
};

struct ResizeAndFlip {
  static constexpr int kCount = 3;
  static constexpr StagePlan plan() {
    StagePlan plan = plan_of(bytes_of(kIn), bytes_of(kOut, true));
    plan.core = Core::kResample;
    plan.whole = Whole::kHalfUp;
    plan.before = 1;
    plan.after = plan.count = kCount;
    return plan;
  }
  template <int i>
  static constexpr auto op() {
    if constexpr (i == 0)
      return Flip{kIn, Axis::kRow, 0.5};
    else if constexpr (i == 1)
      return Resample{kIn, 6, 5, 1, 1, {0.2, 1.0}, {-0.3, 0.3}};
    else
      return Flip{kOut, Axis::kColumn, 0.5};
  }
  static constexpr std::uint32_t number(int i) {
    return static_cast<std::uint32_t>(i) + 4;
  }
};

struct JitterAndMix {
  static constexpr int kCount = 4;
  static constexpr StagePlan plan() {
    const Layout target = planar(kOut, NumberType::kFloat32, 4);
    StagePlan plan = plan_of(bytes_of(kOut, true), target);
    plan.count = kCount;
    plan.statistic = 0;
    plan.mix = 2;
    return plan;
  }
  template <int i>
  static constexpr auto op() {
    if constexpr (i == 0)
      return Jitter{kOut, {0.6, 0.6, 0.6, -0.1}, {1.4, 1.4, 1.4, 0.1}, 15, 1, 255.0f};
    else if constexpr (i == 1)
      return Scale{1.0f / 255};
    else if constexpr (i == 2)
      return Mix{kOut, 1.0, 0, 0};
    else
      return Noise{0.0f, 0.1f, 1.0f, 0, 0};
  }
  static constexpr std::uint32_t number(int i) {
    return static_cast<std::uint32_t>(i) + 7;
  }
};

struct MixLabels {
  static constexpr int kCount = 1;
  static constexpr StagePlan plan() {
    const Layout label{{1, 1, 1}, NumberType::kUint8, 1, 1, 1, 1};  // of eight bytes
    StagePlan plan = plan_of(label, planar({1, kClasses, 1}, NumberType::kFloat32, 4));
    plan.core = Core::kOneHot;
    plan.count = kCount;
    plan.mix = 0;
    return plan;
  }
  template <int i>
  static constexpr auto op() {
    return Mix{kOut, 1.0, 0, 1};
  }
  static constexpr std::uint32_t number(int) { return 9; }
};

template <class S, int i = 0>
void put_operations(Stage& stage) {
  if constexpr (i < S::kCount) {
    const auto op = S::template op<i>();
    OpBlock& block = stage.ops[i];
    block.code = kCodeOf<std::decay_t<decltype(op)>>;
    block.number = S::number(i);
    std::memcpy(block.settings, &op, sizeof op);
    put_operations<S, i + 1>(stage);
  }
}

/// The same as the host has it.
template <class S>
Stage stage_of() {
  Stage stage{};
  static_cast<StagePlan&>(stage) = S::plan();
  put_operations<S>(stage);
  return stage;
}

template <class... S>
std::shared_ptr<const LeafPlan> leaf_plan() {
  return std::make_shared<ChainPlan>(Program::straight({stage_of<S>()...}));
}

}  // namespace chains

/// Batches are made by chains of an image and a label; one leaf is the image as it is.
inline void add_chains(BufferOptions& options) {
  using namespace chains;  // NOLINT(google-build-using-namespace)
  const std::size_t rows = options.fields[0].rows;
  const auto size = static_cast<std::size_t>(bytes_of(kIn).size());
  options.fields = {{size, rows}, {8, rows}};
  options.leaves = {{0, leaf_plan<CropAndNormalize>()},
                    {1, leaf_plan<MixLabels>()},
                    {0, nullptr},
                    {0, leaf_plan<ResizeAndFlip, JitterAndMix>()}};
}

}  // namespace echobuf::test
