// The launches of the stages of a leaf on the device, and the memory that they take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/stage_launch.hpp"
#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/draw/leaf_plan.hpp"
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

/// The stages of a plan; throws std::invalid_argument if it is for the host only.
inline LeafStages stages_of(const LeafPlan& plan) {
  const transform::Program* program = plan.program();
  if (!program) throw std::invalid_argument("a plan that only the host carries out");
  return LeafStages(*program);
}

/// The launches of a leaf's stages, one after another.
class LeafLaunches {
 public:
  /// `settings`: where those of its stages lie on the device. `kernels`: of the stages
  /// of all leaves, of which `next` is the first that no leaf has taken; throws
  /// std::invalid_argument if there are too few.
  LeafLaunches(LeafStages stages, Address settings,
               const std::vector<StageKernels>& kernels, std::size_t& next)
      : stages_(std::move(stages)), settings_(settings) {
    for (std::size_t i = 0; i < stages_.stages().size(); ++i) {
      if (next == kernels.size()) throw std::invalid_argument("a stage has no kernels");
      kernels_.push_back(kernels[next++]);
    }
  }

  const LeafStages& stages() const { return stages_; }

  /// Where the rows of a launch go: the first of them, and bytes from row to row.
  struct Target {
    Address first;  // 0: where the examples of the launch say
    std::size_t bytes;
  };

  /// Enqueues launches that make the rows of `launch`, which has all that is the same
  /// for all stages. `scratch`: for so many rows.
  void enqueue(const Driver& driver, transform::StageLaunch launch,
               const DrawParts& parts, Address scratch, const Target& leaf,
               StreamHandle stream) const {
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      const transform::Stage& stage = stages_.stage(i);
      launch.stage = settings_ + i * sizeof(transform::Stage);
      launch.gates = stage.gates;
      const Images read = images(stage.from, launch.count, scratch);
      launch.image[0] = read.own;
      launch.image[1] = read.partners;
      launch.image_bytes = read.bytes;
      const bool last = stage.to == transform::kLeaf;
      const Images written = last ? Images{leaf.first, 0, leaf.bytes}
                                  : images(stage.to, launch.count, scratch);
      launch.target[0] = written.own;
      launch.target[1] = written.partners;
      launch.target_bytes = written.bytes;
      launch.sums = scratch + launch.count * stages_.sums(i);
      const std::uint32_t blocks = launch.count *
                                   static_cast<std::uint32_t>(stage.frames) *
                                   tile_of(stage).count();
      if (stage.statistic >= 0)
        enqueue(driver, kernels_[i].sum, blocks, stages_.sees_partner(i) ? 2 : 1,
                launch, parts, stream);
      enqueue(driver, kernels_[i].make, blocks, stage.doubled != 0 ? 2 : 1, launch,
              parts, stream);
    }
  }

 private:
  /// Images of rows, each `bytes` behind the one before.
  struct Images {
    Address own;       // 0: where the record is
    Address partners;  // 0: the same, or there are none
    std::size_t bytes;
  };

  Images images(std::int32_t number, std::uint32_t rows, Address scratch) const {
    if (number == transform::kRecord) return {0, 0, 0};
    const transform::ImageBuffer& buffer = stages_.buffer(number);
    const Address own = scratch + rows * stages_.offset(number);
    return {own, buffer.doubled ? own + rows * buffer.bytes : 0, buffer.bytes};
  }

  static void enqueue(const Driver& driver, FunctionHandle kernel, std::uint32_t blocks,
                      unsigned images, transform::StageLaunch& launch,
                      const DrawParts& parts, StreamHandle stream) {
    void* arguments[] = {&launch, const_cast<DrawParts*>(&parts)};
    driver.launch(kernel, blocks, images, 1u, transform::kStageThreads, 1u, 1u, 0u,
                  stream, arguments, static_cast<void**>(nullptr));
  }

  LeafStages stages_;
  Address settings_;
  std::vector<StageKernels> kernels_;  // of each stage
};

/// Copies the settings of stages to the device, and waits for that.
inline void upload_settings(const SharedContext& context,
                            const std::vector<transform::Stage>& settings, Address to) {
  if (settings.empty()) return;
  const DeviceContext::RelaxedScope scope(*context);
  const auto stream = make_stream(context);
  const Driver& driver = context->driver();
  driver.copy_to_device(to, settings.data(), settings.size() * sizeof(transform::Stage),
                        stream->get());
  driver.stream_synchronize(stream->get());
}

}  // namespace echobuf::cuda
