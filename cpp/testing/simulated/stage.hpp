// The kernels of stages as this driver runs them: blocks one after another, their
// threads step by step, whatever the stage.
#pragma once

#include <cstdint>
#include <memory>

#include "control.hpp"
#include "draw.hpp"
#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/stage_steps.hpp"

namespace echobuf::simulated {

/// Weights that a block keeps, or that are made where there is no room for them.
struct AnyWeights {
  transform::Weights made;
  const float* kept = nullptr;
  std::int32_t first_pixel = 0;

  std::int32_t first() const { return kept ? first_pixel : made.first(); }
  float operator()(std::int32_t k) const { return kept ? kept[k] : made(k); }
};

/// A stage that is known when it runs: see transform/stage_steps.hpp.
class AnyStage {
 public:
  static constexpr int kMost = transform::kMostOps;
  static constexpr bool kGated = true;
  static constexpr bool kListed = true;
  static constexpr bool kBytewise = false;
  static constexpr bool kMayWeigh = true;
  static constexpr bool kMayMix = true;
  static constexpr int kChannels = transform::kMostChannels;

  static constexpr bool may(transform::Statistic kind) {
    return kind != transform::Statistic::kNone;
  }
  transform::Statistic statistic() const { return transform::statistic_of(*stage_); }

  class Ops : public transform::HostOps {
   public:
    Ops(const transform::Stage& of, transform::DrawBlock* draws,
        const transform::TilePlace& place)
        : HostOps(of, draws), place_(place) {}

    AnyWeights weights(const transform::Stretch& stretch, transform::Axis axis,
                       std::int32_t i, std::int32_t j) const {
      if (place_.tile.row_taps == 0) return {{stretch, i}};
      const transform::Tabled kept = place_(axis, j);
      return {{}, kept.weight, kept.first()};
    }
    template <class Draw>
    transform::Tabled spread(const Draw&, transform::Axis axis) const {
      return place_.spread(axis);
    }

   private:
    const transform::TilePlace place_;
  };

  explicit AnyStage(const transform::Stage& stage) : stage_(&stage) {}

  const transform::Stage& stage() const { return *stage_; }
  transform::Tile tile() const { return transform::stage_tile(*stage_); }
  void draw(std::int32_t i, const transform::DrawNumber& number, bool partner,
            transform::DrawBlock* blocks) const {
    transform::HostOps(*stage_, blocks).draw(i, number, partner);
  }
  Ops ops(transform::DrawBlock* draws, const transform::TilePlace& place) const {
    return {*stage_, draws, place};
  }

 private:
  const transform::Stage* stage_;
};

template <bool summing, class Stage>
void run_stage(const Launch& launch, const Stage& known,
               const transform::StageLaunch& a, const DrawParts& parts) {
  const HostThreads threads(transform::kStageThreads);
  for (std::uint32_t y = 0; y < launch.grid.y; ++y)
    for (std::uint32_t x = 0; x < launch.grid.x; ++x) {
      transform::BlockMemory<Stage, summing> memory;
      transform::run_block<summing>(threads, known, a, parts, x, y, memory);
    }
}

template <bool summing>
void stage(const Launch& launch, void* const* arguments) {
  device::touched = touch;
  const auto& a = *static_cast<const transform::StageLaunch*>(arguments[0]);
  const auto& parts = *static_cast<const DrawParts*>(arguments[1]);
  const auto settings =
      std::make_unique<transform::Stage>(device::load<transform::Stage>(a.stage));
  run_stage<summing>(launch, AnyStage(*settings), a, parts);
}

inline cuda::FunctionHandle make_function() {
  const std::size_t bytes[] = {sizeof(transform::StageLaunch), sizeof(DrawParts)};
  return echobuf_simulated_kernel("echobuf_stage_make", stage<false>, bytes, 2);
}

inline cuda::FunctionHandle sum_function() {
  const std::size_t bytes[] = {sizeof(transform::StageLaunch), sizeof(DrawParts)};
  return echobuf_simulated_kernel("echobuf_stage_sum", stage<true>, bytes, 2);
}

}  // namespace echobuf::simulated
