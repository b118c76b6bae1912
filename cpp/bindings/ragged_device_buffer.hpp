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

/// `Core`: a BasicBuffer of a cuda::DevicePayloadBackend, or DevicePackingBackend.
template <class Core>
class RaggedDeviceBuffer : public BoundBuffer<Core> {
  using Bound = BoundBuffer<Core>;

 public:
  /// Of each leaf: the addresses of its values and of its offsets or lengths, and the
  /// rows that it was made for.
  using Memory = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t>>;
  /// Of packed rows: the addresses of segments, positions and lengths.
  using Ids = std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t>;

  RaggedDeviceBuffer(const py::list& leaves, const py::list& output,
                     const BufferOptions& options, const DeviceHandle& device,
                     const DeviceBuffer::Handles& kernels,
                     const DeviceBuffer::StageHandles& stages)
      : Bound(leaves, output, make(options, device, kernels, stages)) {
    const PayloadMeasure& measure = this->hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    this->leaves_.limit(options.lengths, measure.most);
  }

  /// The most bytes of a segment; 0: no limit.
  std::uint64_t share() const { return share_; }

  /// Draws the next batch to `memory`, on `stream`, if that is made for `count` records
  /// as the batch has them. Returns a code, the records of the batch, and the rows of
  /// each leaf: RESIZE where they are others. Empty `memory` is to learn them.
  py::tuple next_at(const Memory& memory, const Ids& ids, std::uint64_t count,
                    std::uintptr_t stream, std::optional<double> timeout_s) {
    const std::shared_ptr<Core> buffer = this->hold();
    if (const int refused = Bound::refuse(buffer))
      return py::make_tuple(refused, 0, py::list());
    const auto at = [](std::uintptr_t address) {
      return reinterpret_cast<std::byte*>(address);
    };
    RowsTarget target;
    for (const auto& [values, index, rows] : memory)
      target.leaves.push_back({at(values), at(index), rows});
    target.segments = at(std::get<0>(ids));
    target.positions = at(std::get<1>(ids));
    target.lengths = at(std::get<2>(ids));
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
    const std::shared_ptr<Core> buffer = this->hold();
    return buffer && buffer->of_this_process() ? buffer->backend().error() : "";
  }
  void notice_loss() {
    const std::shared_ptr<Core> buffer = this->hold();
    if (Bound::refuse(buffer)) return;
    const GilRelease released;
    buffer->backend().notice_loss();
  }

 private:
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
