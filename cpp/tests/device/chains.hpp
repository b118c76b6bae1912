// A chain of operations for tests on the simulated device: two stages and a partner.
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
inline constexpr Layout kBytes{kIn, NumberType::kUint8, 1, 27, 3, 1};
inline constexpr Layout kPlanes{kOut, NumberType::kUint8, 1, 5, 1, 30};
inline constexpr Layout kFloats{kOut, NumberType::kFloat32, 4, 5, 1, 30};

template <class... Ops>
Stage stage_of(const Layout& source, const Layout& target, const Ops&... ops) {
  Stage stage{};
  stage.source = source;
  stage.target = target;
  stage.fill = stage.statistic = stage.mix = -1;
  const auto add = [&](const auto& op) {
    OpBlock& block = stage.ops[stage.count];
    block.code = kCodeOf<std::decay_t<decltype(op)>>;
    block.number = static_cast<std::uint32_t>(++stage.count);
    std::memcpy(block.settings, &op, sizeof op);
  };
  (add(ops), ...);
  return stage;
}

inline std::shared_ptr<const LeafPlan> leaf_plan() {
  Stage window = stage_of(kBytes, kPlanes, Flip{kIn, Axis::kRow, 0.5},
                          Resample{kIn, 6, 5, 1, 1, {0.2, 1.0}, {-0.3, 0.3}},
                          Flip{kOut, Axis::kColumn, 0.5});
  window.core = Core::kResample;
  window.whole = Whole::kHalfUp;
  window.before = 1;
  window.after = window.count;
  Stage mixed =
      stage_of(kPlanes, kFloats,
               Jitter{kOut, {0.6, 0.6, 0.6, -0.1}, {1.4, 1.4, 1.4, 0.1}, 15, 1, 255.0f},
               Scale{1.0f / 255}, Mix{kOut, 1.0, 0, 0}, Noise{0.0f, 0.1f, 1.0f, 0, 0});
  mixed.statistic = 0;
  mixed.mix = 2;
  return std::make_shared<ChainPlan>(Program::straight({window, mixed}));
}

}  // namespace chains

/// Batches hold an image that a chain makes, and the image as it is.
inline void add_chains(BufferOptions& options) {
  const std::size_t rows = options.fields[0].rows;
  options.fields = {{static_cast<std::size_t>(chains::kBytes.size()), rows}};
  options.leaves = {{0, nullptr}, {0, chains::leaf_plan()}};
}

}  // namespace echobuf::test
