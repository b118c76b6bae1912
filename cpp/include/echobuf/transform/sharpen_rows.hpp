// Sharpness on the host, row by row: what `Sharpen::sample` does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/picked_columns.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

class SharpenRows {
 public:
  SharpenRows() = default;
  /// Throws std::bad_alloc; nothing is allocated later.
  explicit SharpenRows(const Stage& stage)
      : op_(&stage.ops[stage.before].as<Sharpen>()),
        picked_(stage, op_->in.width),
        line_(op_->in.width, 1),
        cached_(kKept) {
    for (int i = 0; i < kKept; ++i)
      cache_.emplace_back(op_->in.width, op_->in.channels);
  }

  void begin(const HostOps& ops, const Sharpen::Draw& draw) {
    picked_.begin(ops);
    draw_ = draw;
    std::fill(cached_.begin(), cached_.end(), kOutside);
  }

  /// As in `BlurRows`.
  template <class Read, class Fill>
  void row(int32_t y, float* const* rows, Read&& read, Fill&& fill) {
    const Extent& in = op_->in;
    const bool edge = y == 0 || y == in.height - 1;
    const bool whole = picked_.is_whole();
    const bool active = op_->is_active(draw_);
    const RowBlock& middle = kept(y, read);
    const RowBlock& above = active && !edge ? kept(y - 1, read) : middle;
    const RowBlock& below = active && !edge ? kept(y + 1, read) : middle;
    for (int32_t c = 0; c < in.channels; ++c) {
      const float* made = middle[c];
      if (active) {
        float* const to = whole ? rows[c] : line_[0];
        made = to;
        if (op_->integer != 0)
          make<true>(above[c], middle[c], below[c], edge, to);
        else
          make<false>(above[c], middle[c], below[c], edge, to);
      }
      if (made != rows[c]) picked_.pick(made, rows[c], fill(c));
    }
  }

 private:
  static constexpr int kKept = 3;

  template <class Read>
  const RowBlock& kept(int32_t y, Read&& read) {
    const auto slot = static_cast<std::size_t>(y % kKept);
    if (cached_[slot] != y) {
      cached_[slot] = y;
      read(y, cache_[slot].rows());
    }
    return cache_[slot];
  }

  template <bool integer>
  void make(const float* above, const float* middle, const float* below, bool edge,
            float* __restrict__ to) const {
    const int32_t last = op_->in.width - 1;
    work_fast([op = *op_, d = draw_, above, middle, below, edge, to, last] {
      if (edge) {
        for (int32_t x = 0; x <= last; ++x) to[x] = op.bounded<integer>(middle[x]);
        return;
      }
      for (int32_t x = 1; x < last; ++x)
        to[x] = op.sharpened<integer>(d, above[x - 1], above[x], above[x + 1],
                                      middle[x - 1], middle[x], middle[x + 1],
                                      below[x - 1], below[x], below[x + 1]);
      to[0] = op.bounded<integer>(middle[0]);
      to[last] = op.bounded<integer>(middle[last]);
    });
  }

  const Sharpen* op_ = nullptr;
  Sharpen::Draw draw_{};
  PickedColumns picked_;
  RowBlock line_;
  std::vector<RowBlock> cache_;
  std::vector<int32_t> cached_;
};

}  // namespace echobuf::transform
