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
#include "placed_leaves.hpp"
#include "rows_memory.hpp"

namespace echobuf::python {

using DeviceCore = BasicBuffer<cuda::DeviceBackend>;

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
  /// Kernels by their names, and of each stage of each leaf that a plan makes two,
  /// loaded into the device's context by Python.
  using Handles = std::map<std::string, std::uintptr_t>;
  using StageHandles = std::vector<std::pair<std::uintptr_t, std::uintptr_t>>;

  /// `output`: the leaves of batches, as in BoundBuffer.
  DeviceBuffer(const py::list& leaves, const py::list& output,
               const BufferOptions& options, const DeviceHandle& device,
               const Handles& kernels, const StageHandles& stages)
      : BoundBuffer(leaves, output, make(options, device, kernels, stages)) {
    const PayloadMeasure& measure = hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    if (options.lengths.any()) leaves_.limit(options.lengths, measure.most);
  }

  /// The most bytes of a segment's rows; 0: no limit, or none.
  std::uint64_t share() const { return share_; }

  /// Puts one example, or those stacked on axis 0, some leaves of which lie on the
  /// device: see PlacedLeaves; `arrays` has the others, and None or offsets for these.
  /// They are valid on `stream`, or on one of `others`. The first `done` examples have
  /// been put. Returns None or a tuple, as
  /// put() does (CAPTURING too), and the position that follows the last one claimed:
  /// the copy is done once arrived() is that.
  py::tuple put_on_device(const py::list& arrays, const py::list& placed, bool stacked,
                          std::optional<double> timeout_s, const py::object& version,
                          std::uintptr_t stream,
                          const std::vector<std::uintptr_t>& others,
                          std::uint64_t done) {
    const std::shared_ptr<DeviceCore> buffer = hold();
    const auto ends = [](int code, std::uint64_t count) {
      return py::make_tuple(py::make_tuple(code, count), 0);
    };
    if (const int refused = refuse(buffer)) return ends(refused, 0);
    PlacedLeaves leaves(placed, buffer->backend().context().ordinal());
    Sources sources;
    const std::size_t fit = leaves_.bind(PySequence_Fast_ITEMS(arrays.ptr()),
                                         Form::kYielded, stacked, sources, &leaves);
    if (fit != placed.size()) return ends(kMismatch, fit);
    std::optional<std::vector<std::int64_t>> versions;
    if (!version.is_none()) {
      versions = versions_of(version, sources.n);
      if (!versions) return ends(kVersions, sources.n);
    }
    cuda::DevicePut put{
        sources.leaves.data(), leaves.places(), sources.rows, handle(stream), {},
        leaves.some_on_host()};
    for (const std::uintptr_t other : others) put.others.push_back(handle(other));
    cuda::DevicePuts::Write write(buffer->backend().puts, put);
    if (write.is_captured()) return ends(code(Status::kCapturing), 0);
    const std::uint64_t term = buffer->term();
    const bool copies_much =
        leaves.some_on_host() && sources.n > kKeepGil / buffer->record().stride();
    const bool brief = !copies_much && !buffer->backend().puts.are_behind() &&
                       !device_is_behind(*buffer);
    py::object outcome;
    try {
      outcome = run_put(*buffer, brief, timeout_s, done,
                        [&](const WaitLimit& wait_limit, Poll* poll) {
                          return buffer->put_by(write, term, put.leaves, sources.n,
                                                sources.rows, done, wait_limit, poll,
                                                versions ? versions->data() : nullptr);
                        });
    } catch (py::error_already_set& error) {  // of a signal's handler
      error.value().attr("claimed") = write.end();
      throw;
    }
    if (write.error()) throw *write.error();
    return py::make_tuple(outcome, write.end());
  }

  /// The position below which all records are in the window.
  std::uint64_t arrived() const {
    const std::shared_ptr<DeviceCore> buffer = hold();
    return buffer && buffer->of_this_process() ? buffer->backend().ring.arrived()
                                               : ~std::uint64_t{0};
  }

  /// Draws the next batch to `addresses`, one a leaf, on `stream`; where that is being
  /// captured, into its graph. The length of the batch, or minus a code. `records`: a
  /// list that gets the numbers of its records, or None.
  py::ssize_t next_at(const std::vector<std::uintptr_t>& addresses,
                      std::uintptr_t stream, std::optional<double> timeout_s,
                      const std::optional<py::list>& records) {
    std::vector<std::byte*> targets;
    targets.reserve(addresses.size());
    for (const std::uintptr_t address : addresses)
      targets.push_back(reinterpret_cast<std::byte*>(address));
    Target target{targets.data()};
    target.stream = reinterpret_cast<void*>(stream);
    std::vector<std::int64_t> numbers;
    if (records) target.records = &numbers;
    const int code = draw(timeout_s, [&](DeviceCore& buffer, const WaitLimit& limit) {
      return buffer.next_into(target, limit);
    });
    add_all(records, numbers);
    return code != 0 ? -code : static_cast<py::ssize_t>(target.count);
  }

  /// Draws the next batch of records with rows to `memory`, on `stream`, if that is
  /// made for `count` records as the batch has them or, with `room` for so many (0:
  /// made for it), is larger. Returns a code, the records of the batch, the rows of
  /// each leaf where they are others (RESIZE), and whether it is part of a graph. Empty
  /// `memory` is to learn them. `records`: as for next_at().
  py::tuple next_rows(const RowsMemory& memory, const RowsIdMemory& ids,
                      std::uint64_t count, std::uint64_t room, std::uintptr_t stream,
                      std::optional<double> timeout_s,
                      const std::optional<py::list>& records) {
    RowsTarget target = rows_target(memory, ids);
    target.count = count;
    target.room = room;
    target.stream = reinterpret_cast<void*>(stream);
    std::vector<std::int64_t> numbers;
    if (records) target.records = &numbers;
    const int code = draw(timeout_s, [&](DeviceCore& buffer, const WaitLimit& limit) {
      return buffer.next_rows(target, limit);
    });
    add_all(records, numbers);
    return py::make_tuple(code, target.count, target.needed, target.captured);
  }

  /// Makes the next batch that of graphs launched on `stream`, which must live until
  /// the next call that draws, resets or releases has come back, if it has no more than
  /// `rows` in each leaf; none for any. Returns a code, and the rows of each leaf where
  /// they are more (RESIZE).
  py::tuple before_replay(const std::vector<std::uint64_t>& rows, std::uintptr_t stream,
                          std::optional<double> timeout_s) {
    RowsTarget target;
    for (const std::uint64_t each : rows)
      target.leaves.push_back({nullptr, nullptr, each});
    target.room = ~std::uint64_t{0};
    target.stream = reinterpret_cast<void*>(stream);
    const int code = draw(timeout_s, [&](DeviceCore& buffer, const WaitLimit& limit) {
      return buffer.before_replay(target, limit);
    });
    return py::make_tuple(code, target.needed);
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
  static void add_all(std::optional<py::list> records,
                      const std::vector<std::int64_t>& numbers) {
    for (const std::int64_t number : numbers) records->append(number);
  }

  /// Runs `once`, which draws. 0, or a code.
  template <class Once>
  int draw(std::optional<double> timeout_s, Once&& once) {
    const std::shared_ptr<DeviceCore> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    // Nothing is copied here, only enqueued: the GIL is kept unless upstream, the
    // upload or the device is behind. The tables of rows take longer, and may wait for
    // those of draws before.
    const bool brief = !buffer->options().lengths.any() && !device_is_behind(*buffer);
    const Status status = run(
        Does::kDraw, brief, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) { return once(*buffer, wait_limit); },
        [&] { return buffer->draws_wait_for_upload(); });
    if (status == Status::kInterrupted) throw py::error_already_set();
    return code(status);
  }

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

  static cuda::StreamHandle handle(std::uintptr_t stream) {
    return reinterpret_cast<cuda::StreamHandle>(stream);
  }
  static cuda::FunctionHandle function(std::uintptr_t handle) {
    return reinterpret_cast<cuda::FunctionHandle>(handle);
  }

  static std::shared_ptr<DeviceCore> make(const BufferOptions& options,
                                          const DeviceHandle& device,
                                          const Handles& kernels,
                                          const StageHandles& stages) {
    const auto find = [&](const char* name) { return function(kernels.at(name)); };
    const cuda::Kernels found{
        .draw = find("echobuf_draw"),
        .draw_planned = find("echobuf_draw_planned"),
        .draw_partners = find("echobuf_draw_partners"),
        .plan = find("echobuf_plan"),
        .draw_rows = find("echobuf_draw_rows"),
        .place_rows = find("echobuf_place_rows"),
        .scatter = find("echobuf_scatter"),
    };
    std::vector<cuda::StageKernels> of_stages;
    for (const auto& [one, sum] : stages)
      of_stages.push_back({function(one), function(sum)});
    const GilRelease released;  // large allocations take their time
    return std::make_shared<DeviceCore>(options, device.context(), found,
                                        std::move(of_stages));
  }

  std::uint64_t share_ = 0;
  std::atomic<unsigned> draws_{0};  // relaxed, as what follows: they order nothing
  std::atomic<bool> behind_{false};
};

}  // namespace echobuf::python
