// The leaves of a batch that plans make, on the device: a launch for each stage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/stage_launch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/transform/program.hpp"
#include "echobuf/transform/stage_kernel.hpp"

namespace echobuf::cuda {

/// The kernels of one stage, compiled for the device by Python. `sum` is null
/// where the stage needs no statistic.
struct StageKernels {
  FunctionHandle make;
  FunctionHandle sum;
};

/// Images between stages are made for so many rows at a time that they fit.
inline constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
inline constexpr std::size_t kScratchAlignment = 256;

/// The stages of a leaf's plan, and the memory that they take on the device.
class LeafStages {
 public:
  /// `program` must outlive it.
  explicit LeafStages(const transform::Program& program)
      : program_(program), buffers_(program.buffers(true)) {
    for (const transform::ImageBuffer& buffer : buffers_) {
      offsets_.push_back(scratch_bytes_);
      scratch_bytes_ += buffer.all_bytes();
    }
    for (const transform::Stage& stage : stages()) {
      sums_.push_back(scratch_bytes_);
      scratch_bytes_ += sums_bytes(stage);
    }
  }

  const std::vector<transform::Stage>& stages() const { return program_.stages; }
  const transform::Stage& stage(std::size_t i) const { return program_.stages[i]; }

  /// Returns whether stage `i` looks at the partner's image.
  bool sees_partner(std::size_t i) const {
    return stage(i).doubled != 0 || stage(i).mix >= 0;
  }

  std::size_t settings_bytes() const {
    return stages().size() * sizeof(transform::Stage);
  }
  /// Of one row of the batch.
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  const transform::ImageBuffer& buffer(std::int32_t number) const {
    return buffers_[static_cast<std::size_t>(number)];
  }
  /// The place of a buffer in the scratch memory of one row; those of `n` rows follow
  /// each other, at `n` times that. The partners' images come behind the rows' own.
  std::size_t offset(std::int32_t number) const {
    return offsets_[static_cast<std::size_t>(number)];
  }
  /// The place of the sums of stage `i` there.
  std::size_t sums(std::size_t i) const { return sums_[i]; }

  /// Rows that scratch memory is for, of a batch of `rows`.
  std::size_t rows_at_once(std::size_t rows) const {
    const std::size_t bytes = scratch_bytes();
    if (bytes == 0) return rows;
    return std::clamp<std::size_t>(kScratchBytes / bytes, 1, rows);
  }

 private:
  const transform::Program& program_;
  std::vector<transform::ImageBuffer> buffers_;
  std::vector<std::size_t> offsets_;
  std::vector<std::size_t> sums_;
  std::size_t scratch_bytes_ = 0;
};

/// Device memory of plans: the settings of all stages, and scratch memory, which the
/// leaves use one after another.
struct TransformedMemory {
  std::size_t settings = 0;
  std::size_t scratch = 0;

  std::size_t bytes() const {
    return round_up(settings, kScratchAlignment) + round_up(scratch, kScratchAlignment);
  }
};

/// The stages of a leaf; throws std::invalid_argument if its plan is for the host only.
inline LeafStages stages_of(const BatchLayout::Leaf& leaf) {
  const transform::Program* program = leaf.plan->program();
  if (!program) throw std::invalid_argument("a plan that only the host carries out");
  return LeafStages(*program);
}

/// `rows`: of the largest batch.
inline TransformedMemory transformed_memory(const BatchLayout& batch,
                                            std::size_t rows) {
  TransformedMemory memory;
  for (const BatchLayout::Leaf& leaf : batch.all()) {
    if (!leaf.plan) continue;
    const LeafStages stages = stages_of(leaf);
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
    std::size_t kernel = 0;
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      const BatchLayout::Leaf& leaf = batch.all()[i];
      if (!leaf.plan) continue;
      const Field& field = record.fields()[leaf.field];
      Transformed transformed{
          i, leaf.bytes, field.offset, field.row_bytes, stages_of(leaf), {}};
      for (const transform::Stage& stage : transformed.stages.stages()) {
        if (kernel == kernels.size())
          throw std::invalid_argument("a stage has no kernels");
        transformed.launches.push_back(
            {memory + settings.size() * sizeof(transform::Stage), kernels[kernel++]});
        settings.push_back(stage);
      }
      transformed_.push_back(std::move(transformed));
    }
    if (!settings.empty()) upload(settings, memory);
  }

  bool none() const { return transformed_.empty(); }

  /// Enqueues launches that make `rows` from records of `parts`, or, where that is not
  /// 0, of the plan at `plan`.
  void make(const DrawParts& parts, Address plan, const TransformedRows& rows,
            std::byte* const* leaves, StreamHandle stream) const {
    for (const Transformed& transformed : transformed_) {
      const auto most =
          static_cast<std::uint32_t>(transformed.stages.rows_at_once(most_rows_));
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
  struct Launch {
    Address settings;
    StageKernels kernels;
  };
  struct Transformed {
    std::size_t leaf;
    std::size_t bytes;  // of a row of the leaf
    std::size_t offset;
    std::size_t row_bytes;  // of the field
    LeafStages stages;
    std::vector<Launch> launches;
  };

  void upload(const std::vector<transform::Stage>& settings, Address to) const {
    const DeviceContext::RelaxedScope scope(*context_);
    const auto stream = make_stream(context_);
    const Driver& driver = context_->driver();
    driver.copy_to_device(to, settings.data(),
                          settings.size() * sizeof(transform::Stage), stream->get());
    driver.stream_synchronize(stream->get());
  }

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
    const LeafStages& stages = transformed.stages;
    for (std::size_t i = 0; i < transformed.launches.size(); ++i) {
      const transform::Stage& stage = stages.stage(i);
      launch.stage = transformed.launches[i].settings;
      launch.gates = stage.gates;
      const Images read = images(stages, stage.from, rows.count);
      launch.image[0] = read.own;
      launch.image[1] = read.partners;
      launch.image_bytes = read.bytes;
      const bool last = stage.to == transform::kLeaf;
      const Images written = last ? Images{leaf, 0, transformed.bytes}
                                  : images(stages, stage.to, rows.count);
      launch.target[0] = written.own;
      launch.target[1] = written.partners;
      launch.target_bytes = written.bytes;
      launch.sums = scratch_ + rows.count * stages.sums(i);
      enqueue(transformed, i, launch, parts, stream);
    }
  }

  /// Images of rows, each `bytes` behind the one before.
  struct Images {
    Address own;       // 0: they are in the slots
    Address partners;  // 0: in the slots, or there are none
    std::size_t bytes;
  };

  Images images(const LeafStages& stages, std::int32_t number,
                std::uint32_t rows) const {
    if (number == transform::kRecord) return {0, 0, 0};
    const transform::ImageBuffer& buffer = stages.buffer(number);
    const Address own = scratch_ + rows * stages.offset(number);
    return {own, buffer.doubled ? own + rows * buffer.bytes : 0, buffer.bytes};
  }

  void enqueue(const Transformed& transformed, std::size_t i,
               transform::StageLaunch& launch, const DrawParts& parts,
               StreamHandle stream) const {
    const StageKernels& kernels = transformed.launches[i].kernels;
    const transform::Stage& stage = transformed.stages.stage(i);
    const std::uint32_t blocks = launch.count *
                                 static_cast<std::uint32_t>(stage.frames) *
                                 tile_of(stage).count();
    if (stage.statistic >= 0)
      enqueue(kernels.sum, blocks, transformed.stages.sees_partner(i) ? 2 : 1, launch,
              parts, stream);
    enqueue(kernels.make, blocks, stage.doubled != 0 ? 2 : 1, launch, parts, stream);
  }

  void enqueue(FunctionHandle kernel, std::uint32_t blocks, unsigned images,
               transform::StageLaunch& launch, const DrawParts& parts,
               StreamHandle stream) const {
    void* arguments[] = {&launch, const_cast<DrawParts*>(&parts)};
    context_->driver().launch(kernel, blocks, images, 1u, transform::kStageThreads, 1u,
                              1u, 0u, stream, arguments, static_cast<void**>(nullptr));
  }

  const SharedContext context_;
  const std::size_t stride_;
  const std::uint32_t mix_;
  const std::size_t most_rows_;
  const Address scratch_;
  std::vector<Transformed> transformed_;
};

}  // namespace echobuf::cuda
