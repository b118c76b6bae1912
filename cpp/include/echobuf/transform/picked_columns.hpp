// The columns of a row that the maps behind a core pick.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/source_rows.hpp"

namespace echobuf::transform {

class PickedColumns {
 public:
  PickedColumns() = default;
  /// Of a stage whose core makes rows of `width` columns.
  PickedColumns(const Stage& stage, int32_t width)
      : width_(width), index_(static_cast<std::size_t>(stage.target.extent.width)) {
    runs_.reserve(index_.size());
  }

  /// Finds the columns of one draw.
  void begin(const HostOps& ops) {
    const Stage& stage = ops.stage();
    const int32_t count = stage.target.extent.width;
    first_ = width_;
    end_ = 0;
    for (int32_t x = 0; x < count; ++x) {
      const int32_t from =
          unmap(ops, stage.first_after(), stage.after, Axis::kColumn, x);
      index_[static_cast<std::size_t>(x)] = from;
      if (from == kOutside) continue;
      first_ = std::min(first_, from);
      end_ = std::max(end_, from + 1);
    }
    first_ = std::min(first_, end_);
    find_runs(index_.data(), count, runs_);
  }

  /// True if all columns are picked, in their order.
  bool is_whole() const {
    return runs_.size() == 1 && runs_[0].source == 0 && runs_[0].step == 1 &&
           runs_[0].count == width_;
  }
  /// The columns that are picked lie in [first, end).
  int32_t first() const { return first_; }
  int32_t end() const { return end_; }

  /// Picks the columns of a row; those outside become `fill`.
  void pick(const float* from, float* to, float fill) const {
    for (const Run& run : runs_) {
      if (run.source == kOutside)
        std::fill_n(to + run.target, run.count, fill);
      else if (run.step == 1)
        std::copy_n(from + run.source, run.count, to + run.target);
      else
        reverse_row(from + run.source - run.count + 1, run.count, to + run.target);
    }
  }
  /// Makes what lies outside `fill`.
  void fill_outside(float* to, float fill) const {
    for (const Run& run : runs_)
      if (run.source == kOutside) std::fill_n(to + run.target, run.count, fill);
  }

 private:
  int32_t width_ = 0;
  int32_t first_ = 0;
  int32_t end_ = 0;
  std::vector<int32_t> index_;
  std::vector<Run> runs_;
};

}  // namespace echobuf::transform
