// Where a buffer on a device keeps its records: pinned staging, and a window in the
// device's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/memory.hpp"
#include "echobuf/options.hpp"
#include "echobuf/pool.hpp"
#include "echobuf/record.hpp"
#include "echobuf/sweep.hpp"

namespace echobuf::cuda {

inline constexpr std::size_t kStagingBytes = std::size_t{64} << 20;

/// At most one segment, and at most so many bytes, if that is a record.
inline std::uint64_t staging_slots(const BufferOptions& options,
                                   const RecordLayout& record) {
  return std::clamp<std::uint64_t>(kStagingBytes / record.stride(), 1,
                                   largest_segment(options));
}

/// A block in device memory; data() is its address there.
class DeviceBlock final : public Memory {
 public:
  /// Throws std::bad_alloc where there is no room: that may come back.
  DeviceBlock(const SharedContext& context, std::size_t bytes) try
      : Memory(bytes), memory_(make_device_memory(context, bytes)) {
    data_ = reinterpret_cast<void*>(memory_->get());
  } catch (const Error& error) {
    if (error.code() == kErrorOutOfMemory) throw std::bad_alloc();
    throw;
  }

 private:
  const std::unique_ptr<DeviceMemory> memory_;
};

/// Everything is allocated here; what was, when something is refused, is given back.
struct DeviceSide {
  using Ring = StagedRing;
  using Store = Staging;
  using Draw = DeviceDraw;

  /// Examples are uploaded ahead, always; batches are drawn on the caller's stream, so
  /// no thread assembles them ahead.
  static BufferOptions accept(BufferOptions options) {
    options.prefetch = 0;
    return options;
  }

  /// Throws Error, std::bad_alloc.
  DeviceSide(const BufferOptions& options, const SharedContext& context,
             const Kernels& kernels)
      : context_(context),
        kernels_(kernels),
        record_(options.fields, options.ragged),
        capacity_(capacity(options)),
        ring(capacity_, staging_slots(options, record_)),
        window_(make_device_memory(context, size_product(capacity_, record_.stride()))),
        store(context, record_, staging_slots(options, record_),
              capacity_ + staging_slots(options, record_)),
        batch(record_, options.batch_size),
        pool(std::make_shared<BatchPool>(batch.bytes(), 1,
                                         [context](std::size_t bytes) {
                                           return std::make_unique<DeviceBlock>(context,
                                                                                bytes);
                                         })),
        uploader_(std::make_unique<Uploader>(context, ring, store, window_->get())) {}

  /// The window and one segment: where a fractional factor wants more, staging has it.
  static std::uint64_t capacity(const BufferOptions& options) {
    return options.window + largest_segment(options);
  }
  static std::size_t bytes_per_slot(const RecordLayout& record) {
    return record.stride();
  }

  Draw draw() {
    return {store, batch, *uploader_, window_->get(), capacity_, kernels_};
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
    return capacity_ * record_.stride() + pool->held();
  }

 private:
  const SharedContext context_;
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
  const std::shared_ptr<BatchPool> pool;

 private:
  const std::unique_ptr<Uploader> uploader_;
};

}  // namespace echobuf::cuda
