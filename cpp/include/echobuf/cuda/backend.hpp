// The backend of a buffer on a device: pinned staging, and a window in the device's
// memory.
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
#include "echobuf/cuda/device_drawer.hpp"
#include "echobuf/cuda/device_packing.hpp"
#include "echobuf/cuda/device_puts.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/kernels.hpp"
#include "echobuf/cuda/stage_launches.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// Of the payload, behind the slots.
inline constexpr std::size_t kPayloadAlignment = 256;

/// Everything but the memory of batches of rows that wait in the middle is allocated
/// here; what was, when something is refused, is given back.
struct DeviceBackend {
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

  /// `staging_bytes`: see StagingSize. Throws Error, std::bad_alloc.
  DeviceBackend(const BufferOptions& options, SharedContext context,
                const Kernels& kernels, std::vector<StageKernels> stages = {},
                std::size_t staging_bytes = kStagingBytes)
      : context_(std::move(context)),
        kernels_(kernels),
        stages_(std::move(stages)),
        measure(options),
        record_(record_of(options)),
        capacity_(capacity(options)),
        staging_(StagingSize::of(options, record_, measure, staging_bytes)),
        ring(make_ring(options)),
        window_(
            make_device_memory(context_, window_bytes(record_, capacity_, measure))),
        store(make_staging(options)),
        batch(record_, options.leaves, options.batch_size),
        versions_(options.keeps_versions() ? capacity_ + store.slots() : 0),
        uploader_(std::make_unique<Uploader>(context_, ring, store, on_device())),
        puts(context_, ring, store, on_device(), kernels_.scatter, *uploader_) {}

  /// The memory that is allocated here: a drawer's own is for one batch.
  static BufferNeeds needs(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    return {capacity(options), record.stride(), 1,
            options.lengths.packs() ? DevicePacking::own_bytes(options, batch)
                                    : DeviceDrawer::own_bytes(options, record, batch),
            options.lengths.any() ? measure.size.bytes() + kPayloadAlignment : 0};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    if (options.lengths.packs()) return make_drawer<DevicePacking>(options);
    return make_drawer<DeviceDrawer>(options);
  }

  PutPath put_path() { return {ring, store, measure.most, &versions_}; }

  /// Begins to upload. `broken` is called when that has come to an end by itself.
  void start(const std::function<void()>& broken) { uploader_->start(broken); }
  void stop() { uploader_->stop(); }

  const DeviceContext& context() const { return *context_; }
  std::string error() const { return uploader_->error(); }
  bool is_drawing() const { return uploader_->is_drawing(); }
  void notice_loss() { uploader_->notice_loss(); }

  std::size_t bytes() const { return store.bytes() + ring.bytes() + versions_.bytes(); }
  std::size_t device_bytes() const {
    return window_bytes(record_, capacity_, measure) + bytes_of_drawer_();
  }
  /// Of pinned memory.
  static std::size_t staging_bytes(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const auto size = StagingSize::of(options, record, measure, kStagingBytes);
    return size.slots * record.stride() + size_product(size.units, measure.size.unit);
  }

  /// Of all host memory, without tables of rows and what draws take.
  static std::size_t host_bytes(const BufferOptions& options) {
    return staging_bytes(options) +
           echobuf::Ring::bytes(capacity(options), options.lengths.any());
  }

  /// What is known of the rows beside that.
  void describe(BufferStats& stats) {
    if (const RowsTable* const table = store.table())
      describe_payload(stats, ring.claims(), measure, counts_, table->fields().size());
  }

 private:
  template <class DrawerOf>
  std::unique_ptr<Drawer> make_drawer(const BufferOptions& options) {
    const WindowRows rows{store.table(), measure.share, measure.most, &counts_};
    auto drawer =
        std::make_unique<DrawerOf>(options, ring, store, rows, versions_, context_,
                                   batch, *uploader_, on_device(), kernels_, stages_);
    uploader_->prepare([&](StreamHandle stream) { drawer->erase(stream); });
    bytes_of_drawer_ = [made = drawer.get()] { return made->device_bytes(); };
    return drawer;
  }

  /// Slots of the window and, if records have rows, of all that are on their way. Else
  /// of one segment beside the window: where a fractional factor wants more, staging
  /// has it.
  static std::uint64_t capacity(const BufferOptions& options) {
    if (options.lengths.any()) return ring_capacity(options);
    return options.window + largest_segment(options);
  }

  /// Up to where the payload begins, if there is one.
  static std::size_t slots_bytes(const RecordLayout& record, std::uint64_t capacity,
                                 const PayloadMeasure& measure) {
    const std::size_t bytes = size_product(capacity, record.stride());
    return measure.size.units > 0 ? round_up(bytes, kPayloadAlignment) : bytes;
  }
  static std::size_t window_bytes(const RecordLayout& record, std::uint64_t capacity,
                                  const PayloadMeasure& measure) {
    return slots_bytes(record, capacity, measure) + measure.size.bytes();
  }

  StagedRing make_ring(const BufferOptions& options) const {
    if (options.lengths.any())
      return {capacity_, measure.size.units, staging_.slots, staging_.units};
    return {capacity_, staging_.slots, options.borrowed.get()};
  }
  Staging make_staging(const BufferOptions& options) const {
    const LengthOptions& lengths = options.lengths;
    if (lengths.any())
      return {context_, record_,        capacity_,       measure.size,
              staging_, lengths.fields, lengths.examples};
    if (options.borrowed) return {context_, record_, *options.borrowed};
    return {context_, record_, staging_.slots, capacity_ + staging_.slots,
            options.shared};
  }

  Staging::Window on_device() {
    const Address slots = window_->get();
    return {slots, capacity_, slots + slots_bytes(record_, capacity_, measure),
            &ring.claims()};
  }

  const SharedContext context_;
  const Kernels kernels_;
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
  const std::unique_ptr<Uploader> uploader_;

 public:
  DevicePuts puts;

 private:
  RowsCounts counts_;
  std::function<std::size_t()>
      bytes_of_drawer_;  // the buffer's, which ends before this
};

}  // namespace echobuf::cuda
