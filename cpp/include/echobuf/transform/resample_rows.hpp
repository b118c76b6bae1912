// Resampling on the host, row by row: a row of the image is resampled along its columns
// once, and kept while rows of the result want it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/axis_weights.hpp"
#include "echobuf/transform/columns.hpp"
#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/source_rows.hpp"
#include "echobuf/transform/weighted_rows.hpp"

namespace echobuf::transform {

class ResampleRows {
 public:
  /// Throws std::bad_alloc; nothing is allocated later.
  explicit ResampleRows(const Stage& stage)
      : stage_(&stage),
        op_(&stage.ops[stage.before].as<Resample>()),
        most_rows_(op_->most_taps(Axis::kRow)),
        index_(static_cast<std::size_t>(stage.target.extent.width)),
        read_(op_->in.width + Columns::kSlack, channels()),
        across_(stage.target.extent.width, op_->most_taps(Axis::kColumn)),
        cached_(static_cast<std::size_t>(most_rows_)),
        taps_(most_rows_) {
    for (int32_t i = 0; i < most_rows_; ++i)
      cache_.emplace_back(stage.target.extent.width, channels());
    if (op_->windowed != 0) return;
    const Resample::Draw all{0, 0, op_->in.height, op_->in.width};
    all_rows_ = AxisWeights(op_->stretch(all, Axis::kRow));
    all_columns_ = AxisWeights(op_->stretch(all, Axis::kColumn));
  }

  /// Looks at the window. Returns the columns of the image that rows are read with.
  Stretch begin(const HostOps& ops, const Resample::Draw& window) {
    rows_ = op_->stretch(window, Axis::kRow);
    row_taps_ = rows_.taps();
    const Stretch columns = op_->stretch(window, Axis::kColumn);
    across_.taps = columns.taps();
    unmap_all(ops, stage_->first_after(), stage_->after, Axis::kColumn, 0,
              across_.width, index_.data());
    outside_ = false;
    for (int32_t x = 0; x < across_.width; ++x) {
      const int32_t from = index_[static_cast<std::size_t>(x)];
      outside_ = outside_ || from == kOutside;
      weigh_column(columns, from == kOutside ? 0 : from, static_cast<std::size_t>(x));
    }
    across_.find_blocks();
    std::fill(cached_.begin(), cached_.end(), kOutside);
    return columns;
  }

  /// Row `y` of the result, its columns picked. `read(y, rows)` reads a row of the
  /// image; `fill(c)` is the fill of a channel.
  template <class Read, class Fill>
  void row(int32_t y, float* const* rows, Read&& read, Fill&& fill) {
    const int32_t first = weigh_row(y);
    for (int32_t c = 0; c < channels(); ++c) {
      for (int32_t j = 0; j < row_taps_; ++j)
        taps_.rows[static_cast<std::size_t>(j)] = across(first + j, read)[c];
      taps_.add_up(row_taps_, rows[c], across_.width, stage_->whole == Whole::kHalfUp);
    }
    if (!outside_) return;
    for (int32_t x = 0; x < across_.width; ++x)
      if (index_[static_cast<std::size_t>(x)] == kOutside)
        for (int32_t c = 0; c < channels(); ++c) rows[c][x] = fill(c);
  }

 private:
  int32_t channels() const { return stage_->source.extent.channels; }

  /// Weighs what column `x` of the result is made of: column `from` of the core's.
  void weigh_column(const Stretch& columns, int32_t from, std::size_t x) {
    const auto set = [&](int32_t first, auto&& weight) {
      across_.first[x] = first - columns.begin;
      for (int32_t k = 0; k < across_.taps; ++k)
        across_.weights[static_cast<std::size_t>(k * across_.padded) + x] = weight(k);
    };
    if (all_columns_.any())
      return set(all_columns_.first(from),
                 [known = all_columns_.of(from)](int32_t k) { return known[k]; });
    const Weights weights(columns, from);
    set(weights.first(), weights);
  }
  /// Weighs what row `from` of the core's is made of. Returns the first of these rows.
  int32_t weigh_row(int32_t from) {
    if (all_rows_.any()) {
      std::copy_n(all_rows_.of(from), row_taps_, taps_.weights.begin());
      return all_rows_.first(from);
    }
    const Weights weights(rows_, from);
    for (int32_t j = 0; j < row_taps_; ++j)
      taps_.weights[static_cast<std::size_t>(j)] = weights(j);
    return weights.first();
  }

  /// A row of the image, resampled along its columns.
  template <class Read>
  const RowBlock& across(int32_t y, Read&& read) {
    const auto slot = static_cast<std::size_t>(y % most_rows_);
    RowBlock& result = cache_[slot];
    if (cached_[slot] == y) return result;
    cached_[slot] = y;
    read(y, read_.rows());
    for (int32_t c = 0; c < channels(); ++c)
      blend_columns(across_, read_[c], result[c]);
    return result;
  }

  const Stage* stage_;
  const Resample* op_;
  int32_t most_rows_;
  std::vector<int32_t> index_;  // of the core's columns, of each of the result
  RowBlock read_;
  Stretch rows_{};
  int32_t row_taps_ = 0;
  bool outside_ = false;
  Columns across_;
  std::vector<RowBlock> cache_;
  std::vector<int32_t> cached_;  // rows of the image, in `cache_`
  WeightedRows taps_;
  AxisWeights all_rows_;  // of images that are resized whole
  AxisWeights all_columns_;
};

}  // namespace echobuf::transform
