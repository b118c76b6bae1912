// The backend of a buffer on a device whose records differ in length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "echobuf/buffer/payload_measure.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/cuda/device_packing.hpp"
#include "echobuf/cuda/device_rows_drawer.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/stage_launches.hpp"
#include "echobuf/cuda/staged_payload.hpp"
#include "echobuf/cuda/staged_payload_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// Of the payload, behind the slots.
inline constexpr std::size_t kPayloadAlignment = 256;

/// The window has the size of that on the CPU. Everything but the memory of batches
/// that wait in the middle is allocated here.
struct DevicePayloadBackend {
  using Ring = StagedPayloadRing;
  using Store = Staging;
  using PutPath = echobuf::PutPath<Ring, Store>;

  static constexpr bool kUploads = true;

  static BufferOptions accept(BufferOptions options) {
    options.prefetch = 0;
    return options;
  }

  /// `staging_bytes`: about so many of slots, and of payload, on their way at a time.
  /// Throws Error, std::bad_alloc.
  DevicePayloadBackend(const BufferOptions& options, SharedContext context,
                       const RowsKernels& kernels,
                       std::vector<StageKernels> stages = {},
                       std::size_t staging_bytes = kStagingBytes)
      : context_(std::move(context)),
        kernels_(kernels),
        stages_(std::move(stages)),
        measure(options),
        record_(record_of(options)),
        capacity_(ring_capacity(options)),
        staging_(StagingSize::of(record_, capacity_, measure.size, most(measure),
                                 staging_bytes)),
        ring(capacity_, measure.size.units, staging_.slots, staging_.units),
        window_(
            make_device_memory(context_, window_bytes(record_, capacity_, measure))),
        store(context_, record_, capacity_, measure.size, staging_,
              options.lengths.fields, options.lengths.examples),
        batch(record_, options.leaves, options.batch_size),
        versions_(options.keeps_versions() ? capacity_ + staging_.slots : 0),
        uploader_(std::make_unique<BasicUploader<Ring>>(context_, ring, store,
                                                        on_device())) {}

  /// The memory that is allocated here.
  static BufferNeeds needs(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    return {ring_capacity(options), record.stride(), 1,
            options.lengths.packs() ? DevicePacking::own_bytes(options, batch)
                                    : DeviceRowsDrawer::own_bytes(options, batch),
            measure.size.bytes() + kPayloadAlignment};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    if (options.lengths.packs()) return make_drawer<DevicePacking>(options);
    return make_drawer<DeviceRowsDrawer>(options);
  }

  PutPath put_path() { return {ring, store, measure.most, &versions_}; }

  /// Begins to upload. `broken` is called when that has come to an end by itself.
  void start(const std::function<void()>& broken) { uploader_->start(broken); }
  void stop() { uploader_->stop(); }

  std::string error() const { return uploader_->error(); }
  bool is_drawing() const { return uploader_->is_drawing(); }
  void notice_loss() { uploader_->notice_loss(); }

  std::size_t bytes() const {
    return store.bytes() + Ring::bytes(capacity_) + versions_.bytes();
  }
  std::size_t device_bytes() const {
    return window_bytes(record_, capacity_, measure) + bytes_of_drawer_();
  }
  /// Of pinned memory.
  static std::size_t staging_bytes(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const StagingSize size = StagingSize::of(
        record, ring_capacity(options), measure.size, most(measure), kStagingBytes);
    return size.slots * record.stride() + size_product(size.units, measure.size.unit);
  }

  /// What is known of the rows beside that.
  void describe(BufferStats& stats) {
    describe_payload(stats, ring.claims(), measure, counts_,
                     store.table()->fields().size());
  }

 private:
  template <class DrawerOf>
  std::unique_ptr<Drawer> make_drawer(const BufferOptions& options) {
    const WindowRows rows{store.table(), measure.share, measure.most, &counts_};
    auto drawer =
        std::make_unique<DrawerOf>(options, ring, store, rows, versions_, context_,
                                   batch, *uploader_, on_device(), kernels_, stages_);
    uploader_->prepare([&](StreamHandle stream) { drawer->prepare(stream); });
    bytes_of_drawer_ = [made = drawer.get()] { return made->device_bytes(); };
    return drawer;
  }

  /// A record's bytes, and what lies between its fields.
  static std::uint64_t most(const PayloadMeasure& measure) {
    return measure.most + measure.edge;
  }

  static std::size_t slots_bytes(const RecordLayout& record, std::uint64_t capacity) {
    return round_up(size_product(capacity, record.stride()), kPayloadAlignment);
  }
  static std::size_t window_bytes(const RecordLayout& record, std::uint64_t capacity,
                                  const PayloadMeasure& measure) {
    return slots_bytes(record, capacity) + measure.size.bytes();
  }

  Staging::Window on_device() {
    const Address slots = window_->get();
    return {slots, capacity_, slots + slots_bytes(record_, capacity_), &ring.claims()};
  }

  const SharedContext context_;
  const RowsKernels kernels_;
  const std::vector<StageKernels> stages_;

 public:
  const PayloadMeasure measure;

 private:
  const RecordLayout record_;
  const std::uint64_t capacity_;
  const StagingSize staging_;

 public:
  Ring ring;

 private:
  const std::unique_ptr<DeviceMemory> window_;

 public:
  Store store;
  const BatchLayout batch;

 private:
  Versions versions_;
  const std::unique_ptr<BasicUploader<Ring>> uploader_;
  RowsCounts counts_;
  std::function<std::size_t()>
      bytes_of_drawer_;  // the buffer's, which ends before this
};

}  // namespace echobuf::cuda
