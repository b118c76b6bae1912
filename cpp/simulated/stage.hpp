// The kernels of stages as this driver runs them: all blocks and threads of a launch,
// one after another, whatever the stage.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "control.hpp"
#include "draw.hpp"
#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/stage_kernel.hpp"

namespace echobuf::simulated {

/// Weights that a block keeps, or that are made where there is no room for them.
struct AnyWeights {
  transform::Weights made;
  const float* kept = nullptr;
  std::int32_t first_pixel = 0;

  std::int32_t first() const { return kept ? first_pixel : made.first(); }
  float operator()(std::int32_t k) const { return kept ? kept[k] : made(k); }
};

/// The operations of a stage that is known when it runs.
class AnyStage {
 public:
  static constexpr int kMost = transform::kMostOps;

  explicit AnyStage(const transform::Stage& stage) : stage_(&stage) {}

  const transform::Stage& stage() const { return *stage_; }
  transform::Tile tile() const {
    if (stage_->core == transform::Core::kResample)
      return transform::resampling_tile(
          stage_->target.extent, stage_->ops[stage_->before].as<transform::Resample>());
    return transform::plain_tile(stage_->target.extent);
  }
  void draw(std::int32_t i, const transform::DrawNumber& number, bool partner,
            transform::DrawBlock* blocks) const {
    transform::HostOps(*stage_, blocks).draw(i, number, partner);
  }

  class Ops : public transform::HostOps {
   public:
    Ops(const AnyStage& of, transform::DrawBlock* draws,
        const transform::TilePlace& place)
        : HostOps(of.stage(), draws), place_(place) {}

    AnyWeights weights(const transform::Stretch& stretch, transform::Axis axis,
                       std::int32_t i, std::int32_t j) const {
      if (place_.tile.row_taps == 0) return {{stretch, i}};
      const transform::Tabled kept = place_(axis, j);
      return {{}, kept.weight, kept.first()};
    }

   private:
    const transform::TilePlace place_;
  };

 private:
  const transform::Stage* stage_;
};

/// A stage that is known when this is compiled, as in kernels.
template <class S>
struct KnownStage : transform::StageChance<S> {
  using Known = S;

  class Ops : public transform::StageOps<S> {
   public:
    Ops(const KnownStage&, transform::DrawBlock* draws,
        const transform::TilePlace& place)
        : transform::StageOps<S>(draws, place) {}
  };
};

/// What a block of a kernel does: see transform/entry.hpp.
template <bool summing, class Stage>
void run_block(const Stage& known, const transform::StageLaunch& a,
               const transform::PartsOf& parts, std::uint32_t count, std::uint32_t x,
               std::uint32_t y) {
  using transform::kStageThreads;
  const transform::StagePlan stage = known.stage();
  const transform::Tile tile = known.tile();
  const transform::StageBlock block(tile, stage.target.extent, x, y);
  const auto threads = [](auto&& step) {
    for (std::uint32_t t = 0; t < kStageThreads; ++t) step(t);
  };
  transform::StageMemory<Stage::kMost> memory;
  threads([&](std::uint32_t t) { find(a, parts, count, block, t, known, memory); });
  if (stage.mean >= 0 && !summing)
    threads([&](std::uint32_t t) { set_mean(a, block, stage, t, memory); });
  if constexpr (requires { typename Stage::Known; } && !summing) {
    using Known = typename Stage::Known;
    if constexpr (transform::is_bytewise<Known>()) {
      transform::ByteTable<Known> table;
      threads([&](std::uint32_t t) { tabulate(t, table); });
      const typename Stage::Ops ops(known, memory.draws[block.partner], {});
      threads([&](std::uint32_t t) { make_of_bytes(a, block, t, ops, memory, table); });
      return;
    }
  }
  transform::TileWeights weights[2];
  using Ops = typename Stage::Ops;
  const auto ops_of = [&](std::uint32_t who, transform::TileWeights& kept) {
    const Ops ops(known, memory.draws[who], {tile, block.top, block.left, &kept});
    if (tile.row_taps > 0)
      threads([&](std::uint32_t t) { weigh(ops, block, t, kept); });
    return ops;
  };
  const Ops ops = ops_of(block.partner, weights[0]);
  if constexpr (summing) {
    std::int64_t sum = 0;
    threads([&](std::uint32_t t) {
      sum += sum_grey(block, t, ops, memory.image[block.partner]);
    });
    device::store(block.sums(a, block.partner) + block.number * sizeof sum, sum);
  } else if (stage.mix >= 0) {
    const Ops partner_ops = ops_of(1, weights[1]);
    threads([&](std::uint32_t t) { make(a, block, t, ops, partner_ops, memory); });
  } else {
    threads([&](std::uint32_t t) { make(a, block, t, ops, ops, memory); });
  }
}

template <bool summing, class Stage>
void run_stage(const Launch& launch, const Stage& known,
               const transform::StageLaunch& a, const DrawParts& by_value) {
  const transform::PartsOf parts{&by_value, a.plan};
  const std::uint32_t count = parts.count();
  if (count == 0) return;
  for (std::uint32_t y = 0; y < launch.grid.y; ++y)
    for (std::uint32_t x = 0; x < launch.grid.x; ++x)
      run_block<summing>(known, a, parts, count, x, y);
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
