// The buffer on a device of examples that differ in length, as Python sees it: Python
// brings memory of the size that it is told.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "device_buffer.hpp"
#include "echobuf/cuda/payload_backend.hpp"
#include "rows_memory.hpp"

namespace echobuf::python {

using RaggedDeviceCore = BasicBuffer<cuda::DevicePayloadBackend>;

class RaggedDeviceBuffer : public BoundBuffer<RaggedDeviceCore> {
  using Core = RaggedDeviceCore;

 public:
  RaggedDeviceBuffer(const py::list& leaves, const py::list& output,
                     const BufferOptions& options, const DeviceHandle& device,
                     const DeviceBuffer::Handles& kernels,
                     const DeviceBuffer::StageHandles& stages)
      : BoundBuffer(leaves, output, make(options, device, kernels, stages)) {
    const PayloadMeasure& measure = hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    leaves_.limit(options.lengths, measure.most);
  }

  /// The most bytes of a segment; 0: no limit.
  std::uint64_t share() const { return share_; }

  /// Draws the next batch to `memory`, on `stream`, if that is made for `count` records
  /// as the batch has them or, with `room` for so many (0: made for it), is larger.
  /// Returns a code, the records of the batch, the rows of each leaf where they are
  /// others (RESIZE), and whether it is part of a graph. Empty `memory` is to learn
  /// them.
  py::tuple next_at(const RowsMemory& memory, const RowsIdMemory& ids,
                    std::uint64_t count, std::uint64_t room, std::uintptr_t stream,
                    std::optional<double> timeout_s) {
    RowsTarget target = rows_target(memory, ids);
    target.count = count;
    target.room = room;
    target.stream = reinterpret_cast<void*>(stream);
    return call(target, timeout_s, [&](Core& buffer, const WaitLimit& wait_limit) {
      return buffer.next_rows(target, wait_limit);
    });
  }

  /// Makes the next batch that of graphs launched on `stream`, which must live until
  /// the next call that draws, resets or releases has come back, if it has no more than
  /// `rows` in each leaf; none for any. Returns as next_at() does.
  py::tuple before_replay(const std::vector<std::uint64_t>& rows, std::uintptr_t stream,
                          std::optional<double> timeout_s) {
    RowsTarget target;
    for (const std::uint64_t each : rows)
      target.leaves.push_back({nullptr, nullptr, each});
    target.room = ~std::uint64_t{0};
    target.stream = reinterpret_cast<void*>(stream);
    return call(target, timeout_s, [&](Core& buffer, const WaitLimit& wait_limit) {
      return buffer.before_replay(target, wait_limit);
    });
  }

  /// See DeviceBuffer.
  std::string error() const {
    const std::shared_ptr<Core> buffer = hold();
    return buffer && buffer->of_this_process() ? buffer->backend().error() : "";
  }
  void notice_loss() {
    const std::shared_ptr<Core> buffer = hold();
    if (refuse(buffer)) return;
    const GilRelease released;
    buffer->backend().notice_loss();
  }

 private:
  template <class Call>
  py::tuple call(const RowsTarget& target, std::optional<double> timeout_s,
                 Call&& draw) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer))
      return py::make_tuple(refused, 0, py::list(), false);
    const Status status = run(
        Does::kDraw, false, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) { return draw(*buffer, wait_limit); },
        [&] { return buffer->draws_wait_for_upload(); });
    if (status == Status::kInterrupted) throw py::error_already_set();
    return py::make_tuple(code(status), target.count, target.needed, target.captured);
  }

  static std::shared_ptr<Core> make(const BufferOptions& options,
                                    const DeviceHandle& device,
                                    const DeviceBuffer::Handles& kernels,
                                    const DeviceBuffer::StageHandles& stages) {
    const auto find = [&](const char* name) {
      return reinterpret_cast<cuda::FunctionHandle>(kernels.at(name));
    };
    const cuda::RowsKernels found{find("echobuf_draw_rows"),
                                  find("echobuf_place_rows")};
    std::vector<cuda::StageKernels> of_stages = DeviceBuffer::stage_kernels(stages);
    const GilRelease released;  // large allocations take their time
    return std::make_shared<Core>(options, device.context(), found,
                                  std::move(of_stages));
  }

  std::uint64_t share_ = 0;
};

}  // namespace echobuf::python
