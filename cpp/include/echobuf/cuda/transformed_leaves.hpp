// The leaves of a batch that plans make, on the device: a launch for each stage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/stage_launches.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/transform/stage_kernel.hpp"

namespace echobuf::cuda {

/// Device memory of plans: the settings of all stages, and scratch memory, which the
/// leaves use one after another.
struct TransformedMemory {
  std::size_t settings = 0;
  std::size_t scratch = 0;

  std::size_t bytes() const {
    return round_up(settings, kScratchAlignment) + round_up(scratch, kScratchAlignment);
  }
};

/// `rows`: of the largest batch.
inline TransformedMemory transformed_memory(const BatchLayout& batch,
                                            std::size_t rows) {
  TransformedMemory memory;
  for (const BatchLayout::Leaf& leaf : batch.all()) {
    if (!leaf.plan) continue;
    const LeafStages stages = stages_of(*leaf.plan);
    memory.settings += stages.settings_bytes();
    memory.scratch = std::max(memory.scratch, size_product(stages.rows_at_once(rows),
                                                           stages.scratch_bytes()));
  }
  return memory;
}

/// Rows that are made at once.
struct TransformedRows {
  std::uint32_t row;  // of the batch: the first
  std::uint32_t count;
  std::uint32_t ragged;  // rows of the record, where records are ragged
};

class DeviceTransformedLeaves {
 public:
  /// `memory`: as much as transformed_memory() says. Copies the settings there, and
  /// waits for that.
  DeviceTransformedLeaves(SharedContext context, const RecordLayout& record,
                          const BatchLayout& batch, std::size_t rows,
                          const std::vector<StageKernels>& kernels, Address memory)
      : context_(std::move(context)),
        stride_(record.stride()),
        mix_(batch.partner_operation().value_or(0)),
        most_rows_(rows),
        scratch_(memory + round_up(transformed_memory(batch, rows).settings,
                                   kScratchAlignment)) {
    std::vector<transform::Stage> settings;
    std::size_t next = 0;
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      const BatchLayout::Leaf& leaf = batch.all()[i];
      if (!leaf.plan) continue;
      const Field& field = record.fields()[leaf.field];
      transformed_.push_back(
          {i, leaf.bytes, field.offset, field.row_bytes,
           LeafLaunches(stages_of(*leaf.plan),
                        memory + settings.size() * sizeof(transform::Stage), kernels,
                        next)});
      const auto& stages = transformed_.back().launches.stages().stages();
      settings.insert(settings.end(), stages.begin(), stages.end());
    }
    upload_settings(context_, settings, memory);
  }

  bool none() const { return transformed_.empty(); }

  /// Enqueues launches that make `rows` from records of `parts`, or, where that is not
  /// 0, of the plan at `plan`.
  void make(const DrawParts& parts, Address plan, const TransformedRows& rows,
            std::byte* const* leaves, StreamHandle stream) const {
    for (const Transformed& transformed : transformed_) {
      const auto most = static_cast<std::uint32_t>(
          transformed.launches.stages().rows_at_once(most_rows_));
      for (std::uint32_t done = 0; done < rows.count; done += most) {
        const TransformedRows some{rows.row + done, std::min(most, rows.count - done),
                                   rows.ragged};
        make(transformed, parts, plan, some,
             reinterpret_cast<Address>(leaves[transformed.leaf]) +
                 some.row * transformed.bytes,
             stream);
      }
    }
  }

 private:
  struct Transformed {
    std::size_t leaf;
    std::size_t bytes;  // of a row of the leaf
    std::size_t offset;
    std::size_t row_bytes;  // of the field
    LeafLaunches launches;
  };

  /// Stage by stage; `leaf`: where the first of the rows goes.
  void make(const Transformed& transformed, const DrawParts& parts, Address plan,
            const TransformedRows& rows, Address leaf, StreamHandle stream) const {
    transform::StageLaunch launch;
    launch.plan = plan;
    launch.stride = stride_;
    launch.field = transformed.offset;
    launch.field_bytes = transformed.row_bytes;
    launch.row = rows.row;
    launch.count = rows.count;
    launch.ragged = rows.ragged;
    launch.mix = mix_;
    transformed.launches.enqueue(context_->driver(), launch, parts, scratch_,
                                 {leaf, transformed.bytes}, stream);
  }

  const SharedContext context_;
  const std::size_t stride_;
  const std::uint32_t mix_;
  const std::size_t most_rows_;
  const Address scratch_;
  std::vector<Transformed> transformed_;
};

}  // namespace echobuf::cuda
