// Where a buffer on a device keeps its records: pinned staging, and a window in the
// device's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/drawer.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/options.hpp"
#include "echobuf/record.hpp"
#include "echobuf/stats.hpp"
#include "echobuf/sweep.hpp"

namespace echobuf::cuda {

inline constexpr std::size_t kStagingBytes = std::size_t{64} << 20;

/// At most one segment, and at most so many bytes, if that is a record.
inline std::uint64_t staging_slots(const BufferOptions& options,
                                   const RecordLayout& record) {
  return std::clamp<std::uint64_t>(kStagingBytes / record.stride(), 1,
                                   largest_segment(options));
}

/// Of Desk: the plan, and behind it the holding area.
inline constexpr std::size_t kDeskAlignment = 256;

inline std::size_t plan_bytes(const BufferOptions& options) {
  return round_up(DrawPlan::bytes(most_parts(options)), kDeskAlignment);
}
inline std::size_t desk_bytes(const BufferOptions& options) {
  const std::size_t stride = RecordLayout(options.fields, options.ragged).stride();
  const bool cut = options.automatic && options.batch_size > 1;
  return plan_bytes(options) + (cut ? size_product(options.batch_size, stride) : 0);
}

/// Everything is allocated here; what was, when something is refused, is given back.
struct DeviceSide {
  using Ring = StagedRing;
  using Store = Staging;
  using Drawer = DeviceDrawer;

  static constexpr bool kUploads = true;

  /// Examples are uploaded ahead, always; batches are drawn on the caller's stream, so
  /// no thread assembles them ahead.
  static BufferOptions accept(BufferOptions options) {
    options.prefetch = 0;
    return options;
  }

  /// Throws Error, std::bad_alloc.
  DeviceSide(const BufferOptions& options, const SharedContext& context,
             const Kernels& kernels)
      : kernels_(kernels),
        record_(options.fields, options.ragged),
        capacity_(capacity(options)),
        ring(capacity_, staging_slots(options, record_)),
        window_(make_device_memory(context, size_product(capacity_, record_.stride()))),
        store(context, record_, staging_slots(options, record_),
              capacity_ + staging_slots(options, record_)),
        batch(record_, options.leaves, options.batch_size),
        desk_bytes_(desk_bytes(options)),
        desk_(make_device_memory(context, desk_bytes_)),
        holding_(desk_->get() + plan_bytes(options)),
        uploader_(std::make_unique<Uploader>(context, ring, store, window_->get())),
        replay_(std::make_unique<Replay>(*uploader_)) {
    uploader_->prepare([this](StreamHandle stream) { draw().erase(stream); });
  }

  /// The window and one segment: where a fractional factor wants more, staging has it.
  static std::uint64_t capacity(const BufferOptions& options) {
    return options.window + largest_segment(options);
  }

  /// What is made here, by number: the desk is for one batch.
  static BufferNeeds needs(const BufferOptions& options) {
    const RecordLayout record(options.fields, options.ragged);
    return {capacity(options), record.stride(), 1, desk_bytes(options)};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    return std::make_unique<Drawer>(options, ring, draw(), *replay_);
  }

  /// Begins to upload. `broken` is called when that has come to an end by itself.
  void start(std::function<void()> broken) { uploader_->start(std::move(broken)); }
  void stop() { uploader_->stop(); }
  /// In a forked child, where no call of the driver is allowed.
  void abandon() {}

  std::string error() const { return uploader_->error(); }

  std::size_t bytes() const {
    return store.slots() * record_.stride() + echobuf::Ring::bytes(store.slots());
  }
  std::size_t device_bytes() const {
    return capacity_ * record_.stride() + desk_bytes_;
  }

 private:
  DeviceDraw draw() const {
    return {store,          batch,     *uploader_,
            window_->get(), capacity_, {desk_->get(), holding_},
            kernels_};
  }

  const Kernels kernels_;
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
  const std::size_t desk_bytes_;
  const std::unique_ptr<DeviceMemory> desk_;
  const Address holding_;
  const std::unique_ptr<Uploader> uploader_;
  const std::unique_ptr<Replay> replay_;  // goes first: it waits
};

}  // namespace echobuf::cuda
