// The buffer on the CPU of examples that differ in length, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"

namespace echobuf::python {

class RaggedHostBuffer : public BoundBuffer<RaggedBuffer> {
 public:
  /// `makers`: what makes a leaf of any length of its values and offsets, or lengths;
  /// None for other leaves.
  RaggedHostBuffer(const py::list& leaves, const py::list& output,
                   const BufferOptions& options, std::vector<py::object> makers)
      : BoundBuffer(leaves, output, std::make_shared<RaggedBuffer>(options)),
        form_(options.lengths.form),
        makers_(std::move(makers)) {
    const PayloadMeasure& measure = hold()->backend().measure;
    share_ = measure.share == SegmentTable::kUnknown ? 0 : measure.share;
    std::vector<std::uint64_t> max_lengths(leaves.size());
    for (const RaggedField& field : options.lengths.fields)
      max_lengths.at(field.field) = field.max_length;
    leaves_.limit(max_lengths, measure.most);
  }

  /// The most bytes of a segment; 0: no limit.
  std::uint64_t share() const { return share_; }

  /// The leaves of the next batch, or a code.
  py::object next(std::optional<double> timeout_s) {
    const std::shared_ptr<RaggedBuffer> buffer = hold();
    if (const int refused = refuse(buffer)) return py::int_(refused);
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
    return output_.wrap(std::move(batch), form_, makers_);
  }

 private:
  const LengthOptions::Form form_;
  const std::vector<py::object> makers_;
  std::uint64_t share_ = 0;
};

}  // namespace echobuf::python
