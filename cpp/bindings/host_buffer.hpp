// The buffer on the CPU as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <vector>

#include "bound_buffer.hpp"

namespace echobuf::python {

class HostBuffer : public BoundBuffer<Buffer> {
 public:
  HostBuffer(const py::list& leaves, const py::list& output,
             const BufferOptions& options)
      : BoundBuffer(leaves, output, std::make_shared<Buffer>(options)) {}

  /// The leaves of the next batch as arrays, or a code.
  py::object next(std::optional<double> timeout_s) {
    return next_as(timeout_s, [&](const BatchLayout& layout, Batch batch) {
      return output_.wrap(layout, std::move(batch));
    });
  }

  /// The leaves of the next batch for `__dlpack__`, or a code. Only if exportable().
  py::object next_exported(std::optional<double> timeout_s) {
    return next_as(timeout_s, [&](const BatchLayout& layout, Batch batch) {
      return output_.export_all(layout, std::move(batch));
    });
  }
  bool exportable() const { return output_.exportable(); }

  /// Draws into arrays that are as the spec says, contiguous, writable and apart. The
  /// length of the batch, or minus a code (kMismatch: Python must look at the arrays).
  py::ssize_t next_into(const py::list& arrays, std::optional<double> timeout_s) {
    const std::shared_ptr<Buffer> buffer = hold();
    if (const int refused = refuse(buffer)) return -refused;
    std::vector<std::byte*> targets;
    if (!output_.bind_out(arrays, buffer->options().batch_size, targets))
      return -kMismatch;
    Target target{targets.data()};
    const bool brief = is_brief(*buffer);
    const Status status = run(
        Does::kDraw, brief, !buffer->prefetches(), timeout_s,
        [&](const WaitLimit& wait_limit, Poll* poll) {
          return buffer->next_into(target, wait_limit, poll);
        },
        [] { return false; });
    if (status == Status::kInterrupted) throw py::error_already_set();
    if (status != Status::kOk) return -code(status);
    return static_cast<py::ssize_t>(target.count);
  }

 private:
  template <class Wrap>
  py::object next_as(std::optional<double> timeout_s, Wrap&& wrap) {
    const std::shared_ptr<Buffer> buffer = hold();
    if (const int refused = refuse(buffer)) return py::int_(refused);
    Batch batch;
    const bool brief = buffer->prefetches() || is_brief(*buffer);
    const Status status = run(
        Does::kDraw, brief, !buffer->prefetches(), timeout_s,
        [&](const WaitLimit& wait_limit, Poll* poll) {
          return buffer->next(batch, wait_limit, poll);
        },
        [] { return false; });
    if (status == Status::kInterrupted) throw py::error_already_set();
    if (status != Status::kOk) return py::int_(code(status));
    return wrap(buffer->layout(), std::move(batch));
  }

  /// Returns whether a draw takes but microseconds.
  static bool is_brief(const Buffer& buffer) {
    return buffer.layout().bytes() <= kKeepGil && !buffer.layout().planned();
  }
};

}  // namespace echobuf::python
