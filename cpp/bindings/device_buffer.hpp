// The buffer on a device as Python sees it: Python brings the memory of each batch, as
// addresses on the device, and the stream on which it is to be valid.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "echobuf/cuda/backend.hpp"

namespace echobuf::python {

using DeviceCore = BasicBuffer<cuda::CudaBackend>;

/// A driver, and one of its devices.
class DeviceHandle {
 public:
  DeviceHandle(const std::string& library, int ordinal)
      : context_(std::make_shared<const cuda::DeviceContext>(
            cuda::Driver::load(library.c_str()), ordinal)) {}

  const cuda::SharedContext& context() const { return context_; }

  /// Bytes of device memory: free, in all.
  std::pair<std::size_t, std::size_t> memory() const {
    const cuda::DeviceContext::Scope scope(*context_);
    std::size_t free = 0;
    std::size_t total = 0;
    context_->driver().memory_info(&free, &total);
    return {free, total};
  }

  /// Sets the calling thread's capture mode; returns the one before.
  int exchange_capture_mode(int mode) const {
    context_->driver().thread_exchange_capture_mode(&mode);
    return mode;
  }

  /// Returns whether what is done on `stream` becomes part of a graph.
  bool is_capturing(std::uintptr_t stream) const {
    const cuda::DeviceContext::Scope scope(*context_);
    return context_->driver()
        .capture_of(reinterpret_cast<cuda::StreamHandle>(stream))
        .has_value();
  }

 private:
  cuda::SharedContext context_;
};

class DeviceBuffer : public BoundBuffer<DeviceCore> {
 public:
  /// The kernels of kernels/draw.cu by their names, and of each stage of each leaf that
  /// a plan makes two, loaded into the device's context by Python.
  using Handles = std::map<std::string, std::uintptr_t>;
  using StageHandles = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;

  /// `output`: the leaves of batches, as in BoundBuffer.
  DeviceBuffer(const py::list& leaves, const py::list& output,
               const BufferOptions& options, const DeviceHandle& device,
               const Handles& kernels, const StageHandles& stages)
      : BoundBuffer(leaves, output, make(options, device, kernels, stages)) {}

  static std::vector<cuda::StageKernels> stage_kernels(const StageHandles& stages) {
    std::vector<cuda::StageKernels> kernels;
    for (const auto& [one, sum] : stages)
      kernels.push_back({function(one), function(sum)});
    return kernels;
  }

  /// Draws the next batch to `addresses`, one a leaf, on `stream`; where that is being
  /// captured, into its graph. The length of the batch, or minus a code.
  py::ssize_t next_at(const std::vector<std::uintptr_t>& addresses,
                      std::uintptr_t stream, std::optional<double> timeout_s) {
    const std::shared_ptr<DeviceCore> buffer = hold();
    if (const int refused = refuse(buffer)) return -refused;
    std::vector<std::byte*> targets;
    targets.reserve(addresses.size());
    for (const std::uintptr_t address : addresses)
      targets.push_back(reinterpret_cast<std::byte*>(address));
    Target target{targets.data()};
    target.stream = reinterpret_cast<void*>(stream);
    // Nothing is copied here, only enqueued: the GIL is kept unless upstream, the
    // upload or the device is behind.
    const Status status = run(
        Does::kDraw, !device_is_behind(*buffer), true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll* poll) {
          return buffer->next_into(target, wait_limit, poll);
        },
        [&] { return buffer->draws_wait_for_upload(); });
    if (status == Status::kInterrupted) throw py::error_already_set();
    if (status != Status::kOk) return -code(status);
    return static_cast<py::ssize_t>(target.count);
  }

  /// Makes the next batch that of graphs launched on `stream`, which must live until
  /// the next call that draws, resets or releases has come back. 0, or minus a code.
  int before_replay(std::uintptr_t stream, std::optional<double> timeout_s) {
    const std::shared_ptr<DeviceCore> buffer = hold();
    if (const int refused = refuse(buffer)) return -refused;
    const Status status = run(
        Does::kDraw, !device_is_behind(*buffer), true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) {
          return buffer->before_replay(reinterpret_cast<void*>(stream), wait_limit);
        },
        [&] { return buffer->draws_wait_for_upload(); });
    if (status == Status::kInterrupted) throw py::error_already_set();
    return -code(status);
  }

  /// Returns the driver's message where it has refused a call, else an empty string.
  std::string error() const {
    const std::shared_ptr<DeviceCore> buffer = hold();
    return buffer && buffer->of_this_process() ? buffer->backend().error() : "";
  }

  /// Fails the buffer if the device answers no more; producers then stop waiting.
  void notice_loss() {
    const std::shared_ptr<DeviceCore> buffer = hold();
    if (refuse(buffer)) return;
    const GilRelease released;
    buffer->backend().notice_loss();
  }

 private:
  /// Returns whether draws are on their way, so that a launch may wait for room in the
  /// queue of its stream, which holds a thousand or so. Looked at once in some draws,
  /// since it takes calls of the driver, and then until all are done.
  bool device_is_behind(DeviceCore& buffer) {
    constexpr unsigned kDrawsBetween = 32;
    const unsigned draws = draws_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!behind_.load(std::memory_order_relaxed) && draws % kDrawsBetween != 0)
      return false;
    const bool behind = buffer.backend().is_drawing();
    behind_.store(behind, std::memory_order_relaxed);
    return behind;
  }

  static cuda::FunctionHandle function(std::uintptr_t handle) {
    return reinterpret_cast<cuda::FunctionHandle>(handle);
  }

  static std::shared_ptr<DeviceCore> make(const BufferOptions& options,
                                          const DeviceHandle& device,
                                          const Handles& kernels,
                                          const StageHandles& stages) {
    const auto find = [&](const char* name) { return function(kernels.at(name)); };
    const cuda::Kernels found{find("echobuf_draw"), find("echobuf_draw_planned"),
                              find("echobuf_draw_partners"), find("echobuf_plan")};
    const std::vector<cuda::StageKernels> of_stages = stage_kernels(stages);
    const GilRelease released;  // large allocations take their time
    return std::make_shared<DeviceCore>(options, device.context(), found, of_stages);
  }

  std::atomic<unsigned> draws_{0};  // relaxed, as what follows: they order nothing
  std::atomic<bool> behind_{false};
};

}  // namespace echobuf::python
