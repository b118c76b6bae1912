// The backend of a buffer on a device: pinned staging, and a window in the device's
// memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "echobuf/buffer/put_path.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/cuda/device_drawer.hpp"
#include "echobuf/cuda/device_infos.hpp"
#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/transformed_leaves.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// At most one segment, and at most so many bytes, if that is a record.
inline std::uint64_t staging_slots(const BufferOptions& options,
                                   const RecordLayout& record) {
  return std::clamp<std::uint64_t>(kStagingBytes / record.stride(), 1,
                                   largest_segment(options));
}

/// The workspace: the plan, behind it the holding area, and behind that the plans'
/// memory.
inline constexpr std::size_t kWorkspaceAlignment = 256;

struct WorkspaceLayout {
  std::size_t holding;
  std::size_t transformed;
  std::size_t bytes;

  WorkspaceLayout(const BufferOptions& options, const RecordLayout& record,
                  const BatchLayout& batch)
      : holding(round_up(DrawPlan::bytes(most_parts(options)), kWorkspaceAlignment)) {
    const bool cut = (options.automatic || options.expires()) && options.batch_size > 1;
    const std::size_t slots =
        cut ? options.batch_size * (batch.partner_operation() ? 2 : 1) : 0;
    transformed =
        holding + round_up(size_product(slots, record.stride()), kWorkspaceAlignment);
    bytes = transformed + transformed_memory(batch, largest_rows(options)).bytes();
  }

  /// Rows of a batch at most.
  static std::size_t largest_rows(const BufferOptions& options) {
    if (!options.ragged) return options.batch_size;
    return options.fields.empty() ? 0 : options.fields[0].rows;
  }
};

/// Everything is allocated here; what was, when something is refused, is given back.
struct CudaBackend {
  using Ring = StagedRing;
  using Store = Staging;
  using PutPath = echobuf::PutPath<Ring, Store>;

  static constexpr bool kUploads = true;

  /// Examples are uploaded ahead, always; batches are drawn on the caller's stream, so
  /// no thread assembles them ahead.
  static BufferOptions accept(BufferOptions options) {
    options.prefetch = 0;
    return options;
  }

  /// Throws Error, std::bad_alloc.
  CudaBackend(const BufferOptions& options, const SharedContext& context,
              const Kernels& kernels, const std::vector<StageKernels>& stages = {})
      : kernels_(kernels),
        batch_size_(options.batch_size),
        record_(options.fields, options.ragged),
        capacity_(capacity(options)),
        ring(capacity_, staging_slots(options, record_), options.borrowed.get()),
        window_(make_device_memory(context, size_product(capacity_, record_.stride()))),
        store(make_staging(context, options, record_, capacity_)),
        batch(record_, options.leaves, options.batch_size),
        workspace_layout_(options, record_, batch),
        infos_bytes_(infos_bytes(options)),
        workspace_(make_device_memory(context, workspace_layout_.bytes)),
        uploader_(std::make_unique<Uploader>(
            context, ring, store, Staging::Window{window_->get(), capacity_})),
        transformed_(context, record_, batch, WorkspaceLayout::largest_rows(options),
                     stages, workspace_->get() + workspace_layout_.transformed),
        versions_(options.keeps_versions() ? capacity_ + store.slots() : 0),
        infos_(infos_bytes_ > 0
                   ? std::make_unique<DeviceInfos>(
                         options, context, batch,
                         WorkspaceLayout::largest_rows(options), *uploader_)
                   : nullptr),
        replay_(std::make_unique<Replay>(*uploader_)) {
    uploader_->prepare([this](StreamHandle stream) { draw().erase(stream); });
  }

  /// The window and one segment: where a fractional factor wants more, staging has it.
  static std::uint64_t capacity(const BufferOptions& options) {
    return options.window + largest_segment(options);
  }

  /// Returns the memory that is allocated here: the workspace is for one batch.
  static BufferNeeds needs(const BufferOptions& options) {
    const RecordLayout record(options.fields, options.ragged);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    return {capacity(options), record.stride(), 1,
            WorkspaceLayout(options, record, batch).bytes + infos_bytes(options)};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    return std::make_unique<DeviceDrawer>(options, ring, draw(), *replay_, versions_);
  }

  PutPath put_path() { return {ring, store, 0, &versions_}; }

  /// Begins to upload. `broken` is called when that has come to an end by itself.
  void start(const std::function<void()>& broken) { uploader_->start(broken); }
  void stop() { uploader_->stop(); }

  std::string error() const { return uploader_->error(); }
  bool is_drawing() const { return uploader_->is_drawing(); }
  void notice_loss() { uploader_->notice_loss(); }

  std::size_t bytes() const {
    return store.bytes() + echobuf::Ring::bytes(store.slots(), false) +
           versions_.bytes();
  }
  std::size_t device_bytes() const {
    return capacity_ * record_.stride() + workspace_layout_.bytes + infos_bytes_;
  }

 private:
  static Staging make_staging(const SharedContext& context,
                              const BufferOptions& options, const RecordLayout& record,
                              std::uint64_t capacity) {
    if (options.borrowed) return {context, record, *options.borrowed};
    const std::uint64_t slots = staging_slots(options, record);
    return {context, record, slots, capacity + slots, options.shared};
  }

  static std::size_t infos_bytes(const BufferOptions& options) {
    return DeviceInfos::device_bytes(options, WorkspaceLayout::largest_rows(options));
  }

  DeviceDraw draw() const {
    const Workspace workspace{workspace_->get(),
                              workspace_->get() + workspace_layout_.holding};
    return {store,     batch,    *uploader_,   window_->get(), capacity_,
            workspace, kernels_, transformed_, batch_size_,    infos_.get()};
  }

  const Kernels kernels_;
  const std::uint64_t batch_size_;
  const RecordLayout record_;
  const std::uint64_t capacity_;

 public:
  Ring ring;

 private:
  const std::unique_ptr<DeviceMemory> window_;

 public:
  Store store;
  const BatchLayout batch;

 private:
  const WorkspaceLayout workspace_layout_;
  const std::size_t infos_bytes_;
  const std::unique_ptr<DeviceMemory> workspace_;
  const std::unique_ptr<Uploader> uploader_;
  const DeviceTransformedLeaves transformed_;
  Versions versions_;
  const std::unique_ptr<DeviceInfos> infos_;  // null: draws want none
  const std::unique_ptr<Replay> replay_;      // goes first: it waits
};

}  // namespace echobuf::cuda
