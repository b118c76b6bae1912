// The stages that make a leaf of the batch from one field of a record.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/transform/stage.hpp"

namespace echobuf::transform {

/// Memory for an image between stages.
struct ImageBuffer {
  std::size_t bytes = 0;  // of one example
  bool doubled = false;   // the partner's image lies there, too

  std::size_t all_bytes() const { return bytes * (doubled ? 2 : 1); }
};

struct Program {
  /// In the order in which they are carried out. The last one writes the leaf, and so
  /// do the other alternatives of a last choice.
  std::vector<Stage> stages;

  /// A program of stages without gates, each of which reads what the one before wrote.
  static Program straight(std::vector<Stage> stages) {
    bool mixes_later = false;
    for (std::size_t i = stages.size(); i-- > 0;) {
      const bool last = i + 1 == stages.size();
      stages[i].from = i == 0 ? kRecord : static_cast<std::int32_t>(i - 1);
      stages[i].to = last ? kLeaf : static_cast<std::int32_t>(i);
      stages[i].doubled = mixes_later ? 1 : 0;
      mixes_later = mixes_later || stages[i].mix >= 0;
    }
    return {std::move(stages)};
  }

  /// Bytes of the leaf, of one example.
  std::size_t bytes() const {
    return static_cast<std::size_t>(stages.back().target_bytes());
  }

  /// The buffers between the stages, by their numbers. `clips`: with room for all
  /// frames of a clip, not for one.
  std::vector<ImageBuffer> buffers(bool clips) const {
    constexpr std::size_t kAlign = 64;
    std::vector<ImageBuffer> buffers;
    for (const Stage& stage : stages) {
      if (stage.to == kLeaf) continue;
      const auto number = static_cast<std::size_t>(stage.to);
      if (number >= buffers.size()) buffers.resize(number + 1);
      const auto size =
          static_cast<std::size_t>(clips ? stage.target_bytes() : stage.target.size());
      ImageBuffer& buffer = buffers[number];
      buffer.bytes = std::max(buffer.bytes, (size + kAlign - 1) / kAlign * kAlign);
      buffer.doubled = buffer.doubled || stage.doubled != 0;
    }
    return buffers;
  }

  /// The number of the operation that chooses the partner: the first mix. Others are
  /// alternatives of one choice with it, and share the partner.
  std::optional<uint32_t> mix_operation() const {
    for (const Stage& stage : stages)
      if (stage.mix >= 0) return stage.ops[stage.mix].number;
    return std::nullopt;
  }

  /// Returns whether an operation is another at every second use of a record.
  bool alternates() const {
    for (const Stage& stage : stages)
      for (std::int32_t i = 0; i < stage.count; ++i)
        if (transform::alternates(stage.ops[i].number)) return true;
    return false;
  }
};

}  // namespace echobuf::transform
