// The buffers on the CPU of examples that differ in length, as Python sees them.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "rows_memory.hpp"

namespace echobuf::python {

/// `Core`: a RaggedBuffer, or a PackingBuffer.
template <class Core>
class RaggedHostBuffer : public BoundBuffer<Core> {
  using Bound = BoundBuffer<Core>;

 public:
  /// `makers`: what makes a leaf of any length of its values and offsets, or lengths;
  /// of packed rows, of values, segments, positions and lengths. None for other leaves.
  RaggedHostBuffer(const py::list& leaves, const py::list& output,
                   const BufferOptions& options, std::vector<py::object> makers)
      : Bound(leaves, output, std::make_shared<Core>(options)),
        lengths_(options.lengths),
        makers_(std::move(makers)) {
    const PayloadMeasure& measure = this->hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    this->leaves_.limit(lengths_, measure.most);
  }

  /// The most bytes of a segment; 0: no limit.
  std::uint64_t share() const { return share_; }

  /// The leaves of the next batch, or a code.
  py::object next(std::optional<double> timeout_s) {
    const std::shared_ptr<Core> buffer = this->hold();
    if (const int refused = Bound::refuse(buffer)) return py::int_(refused);
    Batch batch;
    const bool brief =
        buffer->prefetches() || (buffer->backend().pool->block_bytes() <= kKeepGil &&
                                 !buffer->layout().planned());
    const Status status = run(
        Does::kDraw, brief, !buffer->prefetches(), timeout_s,
        [&](const WaitLimit& wait_limit, Poll* poll) {
          return buffer->next(batch, wait_limit, poll);
        },
        [] { return false; });
    if (status == Status::kInterrupted) throw py::error_already_set();
    if (status != Status::kOk) return py::int_(code(status));
    if constexpr (std::is_same_v<Core, PackingBuffer>)
      return this->output_.wrap_rows(std::move(batch), makers_);
    else
      return this->output_.wrap(std::move(batch), lengths_.form, makers_);
  }

  /// Draws the next batch to `memory`, which has room for `room` records. Returns a
  /// code, the records of the batch, and where it does not fit (RESIZE) the rows of
  /// each leaf.
  py::tuple next_into(const RowsMemory& memory, const RowsIdMemory& ids,
                      std::uint64_t room, std::optional<double> timeout_s) {
    const std::shared_ptr<Core> buffer = this->hold();
    if (const int refused = Bound::refuse(buffer))
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
  const LengthOptions lengths_;
  const std::vector<py::object> makers_;
  std::uint64_t share_ = 0;
};

}  // namespace echobuf::python
