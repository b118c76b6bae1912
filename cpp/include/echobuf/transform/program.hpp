// The stages that make a leaf of the batch from one field of a record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "echobuf/transform/stage.hpp"

namespace echobuf::transform {

struct Program {
  std::vector<Stage> stages;

  /// Bytes of the leaf, of one example.
  std::size_t bytes() const {
    return static_cast<std::size_t>(stages.back().target_bytes());
  }
  /// Bytes between the stages, of one example or of one frame of it; the first `stage`
  /// of them.
  std::size_t scratch_bytes(std::size_t stages_before) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < stages_before; ++i) bytes += scratch_bytes_of(i);
    return bytes;
  }
  std::size_t scratch_bytes() const { return scratch_bytes(stages.size() - 1); }
  std::size_t scratch_bytes_of(std::size_t stage) const {
    constexpr std::size_t kAlign = 64;
    const auto size = static_cast<std::size_t>(stages[stage].target.size());
    return (size + kAlign - 1) / kAlign * kAlign;
  }

  /// The stage in which the example is mixed with its partner, if it is.
  std::optional<std::size_t> mix_stage() const {
    for (std::size_t i = 0; i < stages.size(); ++i)
      if (stages[i].mix >= 0) return i;
    return std::nullopt;
  }
  /// The number of the operation that chooses the partner.
  std::optional<uint32_t> mix_operation() const {
    const auto stage = mix_stage();
    if (!stage) return std::nullopt;
    return stages[*stage].ops[stages[*stage].mix].number;
  }
};

}  // namespace echobuf::transform
