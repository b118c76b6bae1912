// One part of a batch, drawn on the device by a kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "echobuf/cuda/draw_launch.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/options.hpp"
#include "echobuf/part.hpp"
#include "echobuf/record.hpp"

namespace echobuf::cuda {

/// The kernels, compiled for the device by somebody else.
struct Kernels {
  FunctionHandle draw;
};

/// Enqueues draws on `Target::stream`; they are ordered among each other and against
/// uploads by events, so a target may be on another stream each time.
class DeviceDraw {
 public:
  DeviceDraw(const Staging& staging, const BatchLayout& batch, Uploader& uploader,
             Address window, std::uint64_t capacity, const Kernels& kernels)
      : staging_(staging),
        batch_(batch),
        uploader_(uploader),
        window_(window),
        capacity_(capacity),
        kernels_(kernels) {}

  const RecordLayout& record() const { return staging_.layout(); }
  const BatchLayout& batch() const { return batch_; }

  bool draw(const PassPart& part, Target& target, std::uint64_t row, Poll*) try {
    const DeviceContext::Scope scope(uploader_.context());
    std::size_t rows = 0;
    if (record().ragged()) {
      rows = staging_.length(part.window +
                             part.order(static_cast<std::uint32_t>(part.offset)));
      target.count = rows;
    }
    const DrawArguments arguments{.order = part.order,
                                  .slots = window_,
                                  .capacity = capacity_,
                                  .first = part.window % capacity_,
                                  .stride = record().stride(),
                                  .row = row,
                                  .offset = static_cast<std::uint32_t>(part.offset),
                                  .count = static_cast<std::uint32_t>(part.count)};
    uploader_.order_draw(target.stream, part.window + part.order.size());
    const std::size_t fields = record().fields().size();
    for (std::size_t f = 0; f < fields; f += kDrawFields)
      launch(lay_out(arguments, record(), target.leaves, f,
                     std::min<std::size_t>(fields, f + kDrawFields), rows),
             target.stream);
    uploader_.note_draw(target.stream);
    return true;
  } catch (const Error& error) {
    uploader_.lose_draw(target.stream, error.what());
    throw;
  }

  /// Copies a batch of `target.count` out of a block on the device.
  void copy_out(const std::byte* block, const Target& target) try {
    const DeviceContext::Scope scope(uploader_.context());
    uploader_.order_draw(target.stream, 0);
    for (std::size_t f = 0; f < batch_.leaves(); ++f) {
      const std::size_t bytes = target.count * record().bytes_per_count(f);
      if (bytes == 0) continue;
      uploader_.context().driver().copy_on_device(
          reinterpret_cast<Address>(target.leaves[f]),
          reinterpret_cast<Address>(block + batch_.offset(f)), bytes, target.stream);
    }
    uploader_.note_draw(target.stream);
  } catch (const Error& error) {
    uploader_.lose_draw(target.stream, error.what());
    throw;
  }

 private:
  void launch(const DrawLaunch& launch, StreamHandle stream) {
    DrawArguments arguments = launch.arguments;
    void* pointers[] = {&arguments};
    uploader_.context().driver().launch(kernels_.draw, launch.blocks, 1u, 1u,
                                        kDrawThreads, 1u, 1u, 0u, stream, pointers,
                                        static_cast<void**>(nullptr));
  }

  const Staging& staging_;
  const BatchLayout& batch_;
  Uploader& uploader_;
  const Address window_;
  const std::uint64_t capacity_;
  const Kernels kernels_;
};

}  // namespace echobuf::cuda
