// The buffer on the CPU as Python sees it.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "rows_memory.hpp"

namespace echobuf::python {

class HostBuffer : public BoundBuffer<Buffer> {
 public:
  /// `makers`: what makes a leaf of any length of its values and offsets, or lengths;
  /// of packed rows, of values, segments, positions and lengths. None for other leaves.
  HostBuffer(const py::list& leaves, const py::list& output,
             const BufferOptions& options, std::vector<py::object> makers)
      : BoundBuffer(leaves, output, std::make_shared<Buffer>(options)),
        lengths_(options.lengths),
        makers_(std::move(makers)) {
    const PayloadMeasure& measure = hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    if (lengths_.any()) leaves_.limit(lengths_, measure.most);
  }

  /// The most bytes of a segment's rows; 0: no limit, or none.
  std::uint64_t share() const { return share_; }

  /// The leaves of the next batch as arrays, or as `makers` make them, or a code.
  py::object next(std::optional<double> timeout_s) {
    return next_as(timeout_s, [&](const BatchLayout& layout, Batch batch) {
      if (!lengths_.any()) return output_.wrap(layout, std::move(batch));
      if (lengths_.packs()) return output_.wrap_rows(std::move(batch), makers_);
      return output_.wrap(std::move(batch), lengths_.form, makers_);
    });
  }

  /// The leaves of the next batch for `__dlpack__`, or a code. Only if exportable().
  py::object next_exported(std::optional<double> timeout_s) {
    return next_as(timeout_s, [&](const BatchLayout& layout, Batch batch) {
      return output_.export_all(layout, std::move(batch));
    });
  }
  bool exportable() const { return !lengths_.any() && output_.exportable(); }

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

  /// Draws the next batch of records with rows to `memory`, which has room for `room`
  /// of them. Returns a code, the records of the batch, and where it does not fit
  /// (RESIZE) the rows of each leaf.
  py::tuple next_rows(const RowsMemory& memory, const RowsIdMemory& ids,
                      std::uint64_t room, std::optional<double> timeout_s) {
    const std::shared_ptr<Buffer> buffer = hold();
    if (const int refused = refuse(buffer))
      return py::make_tuple(refused, 0, py::list());
    RowsTarget target = rows_target(memory, ids);
    target.room = room;
    const Status status = run(
        Does::kDraw, false, !buffer->prefetches(), timeout_s,
        [&](const WaitLimit& wait_limit, Poll* poll) {
          return buffer->next_rows(target, wait_limit, poll);
        },
        [] { return false; });
    if (status == Status::kInterrupted) throw py::error_already_set();
    return py::make_tuple(code(status), target.count, target.needed);
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
  static bool is_brief(Buffer& buffer) {
    return buffer.backend().pool->block_bytes() <= kKeepGil &&
           !buffer.layout().planned();
  }

  const LengthOptions lengths_;
  const std::vector<py::object> makers_;
  std::uint64_t share_ = 0;
};

}  // namespace echobuf::python
