// The buffer on a device of examples that differ in length, as Python sees it: Python
// brings memory of the size that it is told.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "device_buffer.hpp"
#include "echobuf/cuda/payload_backend.hpp"

namespace echobuf::python {

using RaggedDeviceCore = BasicBuffer<cuda::DevicePayloadBackend>;

class RaggedDeviceBuffer : public BoundBuffer<RaggedDeviceCore> {
 public:
  /// Of each leaf: the addresses of its values and of its offsets or lengths, and the
  /// rows that it was made for.
  using Memory = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t>>;

  RaggedDeviceBuffer(const py::list& leaves, const py::list& output,
                     const BufferOptions& options, const DeviceHandle& device,
                     const DeviceBuffer::Handles& kernels)
      : BoundBuffer(leaves, output, make(options, device, kernels)) {
    const PayloadMeasure& measure = hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    leaves_.limit(options.lengths, measure.most);
  }

  /// The most bytes of a segment; 0: no limit.
  std::uint64_t share() const { return share_; }

  /// Draws the next batch to `memory`, on `stream`, if that is made for `count` records
  /// as the batch has them. Returns a code, the records of the batch, and the rows of
  /// each leaf: RESIZE where they are others. Empty `memory` is to learn them.
  py::tuple next_at(const Memory& memory, std::uint64_t count, std::uintptr_t stream,
                    std::optional<double> timeout_s) {
    const std::shared_ptr<RaggedDeviceCore> buffer = hold();
    if (const int refused = refuse(buffer))
      return py::make_tuple(refused, 0, py::list());
    RowsTarget target;
    for (const auto& [values, index, rows] : memory)
      target.leaves.push_back({reinterpret_cast<std::byte*>(values),
                               reinterpret_cast<std::byte*>(index), rows});
    target.count = count;
    target.stream = reinterpret_cast<void*>(stream);
    const Status status = run(
        Does::kDraw, false, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) {
          return buffer->next_rows(target, wait_limit);
        },
        [&] { return buffer->draws_wait_for_upload(); });
    if (status == Status::kInterrupted) throw py::error_already_set();
    return py::make_tuple(code(status), target.count, target.needed);
  }

  /// See DeviceBuffer.
  std::string error() const {
    const std::shared_ptr<RaggedDeviceCore> buffer = hold();
    return buffer && buffer->of_this_process() ? buffer->backend().error() : "";
  }
  void notice_loss() {
    const std::shared_ptr<RaggedDeviceCore> buffer = hold();
    if (refuse(buffer)) return;
    const GilRelease released;
    buffer->backend().notice_loss();
  }

 private:
  static std::shared_ptr<RaggedDeviceCore> make(const BufferOptions& options,
                                                const DeviceHandle& device,
                                                const DeviceBuffer::Handles& kernels) {
    const auto kernel =
        reinterpret_cast<cuda::FunctionHandle>(kernels.at("echobuf_draw_rows"));
    const GilRelease released;  // large allocations take their time
    return std::make_shared<RaggedDeviceCore>(options, device.context(), kernel);
  }

  std::uint64_t share_ = 0;
};

}  // namespace echobuf::python
