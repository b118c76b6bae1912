// A blur on the host: each row is blurred along its columns once, and kept while
// neighbours want it. The sums are those of `Blur::sample`, in the same order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/picked_columns.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

namespace detail {

/// The neighbours at some distances, of a row of numbers.
template <int pairs>
struct Neighbours {
  std::array<const float*, pairs + 1> before;  // the last is the middle
  std::array<const float*, pairs + 1> behind;
  std::array<float, pairs + 1> weight;
};

/// Adds `pairs` of them, then the middle if `ends`, to sums that begin with 0 if
/// `begins`.
template <int pairs, bool begins, bool ends>
void add_neighbours(const Neighbours<pairs>& of, float* __restrict__ to,
                    int32_t count) {
  work_fast([of, to, count] {
    const float* a[pairs + 1];
    const float* b[pairs + 1];
    for (int k = 0; k <= pairs; ++k) {
      a[k] = of.before[static_cast<std::size_t>(k)];
      b[k] = of.behind[static_cast<std::size_t>(k)];
    }
    for (int32_t x = 0; x < count; ++x) {
      float sum = begins ? 0.0f : to[x];
      for (int k = 0; k < pairs; ++k)
        sum = sum + (a[k][x] + b[k][x]) * of.weight[static_cast<std::size_t>(k)];
      if constexpr (ends) sum = sum + a[pairs][x] * of.weight[pairs];
      to[x] = sum;
    }
  });
}

template <int pairs>
void add_group(const float* const* before, const float* const* behind,
               const float* weights, bool begins, bool ends, float* to, int32_t count) {
  Neighbours<pairs> of{};
  for (std::size_t k = 0; k < pairs + (ends ? 1 : 0); ++k) {
    of.before[k] = before[k];
    of.behind[k] = behind[k];
    of.weight[k] = weights[k];
  }
  if (begins && ends) return add_neighbours<pairs, true, true>(of, to, count);
  if (begins) return add_neighbours<pairs, true, false>(of, to, count);
  if (ends) return add_neighbours<pairs, false, true>(of, to, count);
  return add_neighbours<pairs, false, false>(of, to, count);
}

/// Adds all pairs, the first `reach` of them, and the middle, which comes behind them.
inline void add_all(const float* const* before, const float* const* behind,
                    const float* weights, int32_t reach, float* to, int32_t count) {
  constexpr int32_t kGroup = 4;
  int32_t done = 0;
  do {
    const int32_t size = std::min(reach - done, kGroup);
    const bool begins = done == 0;
    const bool ends = done + size == reach;
    const auto group = [&]<int pairs>() {
      add_group<pairs>(before + done, behind + done, weights + done, begins, ends, to,
                       count);
    };
    switch (size) {
      case 0:
        group.template operator()<0>();
        break;
      case 1:
        group.template operator()<1>();
        break;
      case 2:
        group.template operator()<2>();
        break;
      case 3:
        group.template operator()<3>();
        break;
      default:
        group.template operator()<4>();
    }
    done += size;
  } while (done < reach);
}

}  // namespace detail

class BlurRows {
 public:
  BlurRows() = default;
  /// Throws std::bad_alloc; nothing is allocated later.
  explicit BlurRows(const Stage& stage)
      : stage_(&stage),
        op_(&stage.ops[stage.before].as<Blur>()),
        picked_(stage, op_->in.width),
        edge_((op_->radius[1] + kAlign - 1) / kAlign * kAlign),
        padded_(op_->in.width + 2 * edge_, channels()),
        line_(op_->in.width, 1),
        starts_(static_cast<std::size_t>(channels())) {
    const auto kept = static_cast<std::size_t>(2 * op_->radius[0] + 1);
    for (std::size_t i = 0; i < kept; ++i)
      cache_.emplace_back(stage.target.extent.width, channels());
    cached_.resize(kept);
    for (int32_t c = 0; c < channels(); ++c)
      starts_[static_cast<std::size_t>(c)] = padded_[c] + edge_;
  }

  void begin(const HostOps& ops, const Blur::Draw& draw) {
    picked_.begin(ops);
    std::fill(cached_.begin(), cached_.end(), kOutside);
    for (int axis = 0; axis < 2; ++axis) {
      reach_[axis] = draw.reach[axis];
      const Axis which = axis == 0 ? Axis::kRow : Axis::kColumn;
      for (int32_t k = 0; k <= reach_[axis]; ++k)  // the farthest first
        weights_[axis][reach_[axis] - k] = Blur::weight(draw, which, k);
    }
  }

  /// Row `y` of the blur's result, its columns picked. `read(y, rows)` reads a row of
  /// the blur's image; `fill(c)` is the fill of a channel.
  template <class Read, class Fill>
  void row(int32_t y, float* const* rows, Read&& read, Fill&& fill) {
    const int32_t reach = reach_[0];
    const RowBlock* up[Blur::kMostRadius + 1];
    const RowBlock* down[Blur::kMostRadius + 1];
    for (int32_t k = 0; k <= reach; ++k) {
      const int32_t far = reach - k;
      up[k] = &across(y - far, read);
      down[k] = &across(y + far, read);
    }
    const int32_t width = stage_->target.extent.width;
    for (int32_t c = 0; c < channels(); ++c) {
      const float* before[Blur::kMostRadius + 1];
      const float* behind[Blur::kMostRadius + 1];
      for (int32_t k = 0; k <= reach; ++k) {
        before[k] = (*up[k])[c];
        behind[k] = (*down[k])[c];
      }
      detail::add_all(before, behind, weights_[0], reach, rows[c], width);
      if (stage_->whole != Whole::kNo) make_whole(rows[c], width, stage_->whole);
      picked_.fill_outside(rows[c], fill(c));
    }
  }

 private:
  static constexpr int32_t kAlign = 16;

  int32_t channels() const { return op_->in.channels; }

  template <class Read>
  const RowBlock& across(int32_t y, Read&& read) {
    y = border_index(Border::kReflect, y, op_->in.height);
    const std::size_t slot = static_cast<std::size_t>(y) % cached_.size();
    RowBlock& result = cache_[slot];
    if (cached_[slot] == y) return result;
    cached_[slot] = y;
    read(y, starts_.data());
    const int32_t reach = reach_[1];
    const int32_t width = op_->in.width;
    for (int32_t c = 0; c < channels(); ++c) {
      float* const row = starts_[static_cast<std::size_t>(c)];
      for (int32_t k = 1; k <= reach; ++k) {
        row[-k] = row[border_index(Border::kReflect, -k, width)];
        row[width - 1 + k] = row[border_index(Border::kReflect, width - 1 + k, width)];
      }
      const float* before[Blur::kMostRadius + 1];
      const float* behind[Blur::kMostRadius + 1];
      for (int32_t k = 0; k <= reach; ++k) {
        before[k] = row + picked_.first() - (reach - k);
        behind[k] = row + picked_.first() + (reach - k);
      }
      const bool whole = picked_.is_whole();
      float* const to = whole ? result[c] : line_[0];
      detail::add_all(before, behind, weights_[1], reach, to + picked_.first(),
                      picked_.end() - picked_.first());
      if (!whole) picked_.pick(to, result[c], 0.0f);
    }
    return result;
  }

  static void make_whole(float* __restrict__ row, int32_t count, Whole how) {
    if (how != Whole::kHalfEven) return;
    work_fast([=] {
      for (int32_t x = 0; x < count; ++x)
        row[x] = Puller<HostOps>::whole(Whole::kHalfEven, row[x]);
    });
  }

  const Stage* stage_ = nullptr;
  const Blur* op_ = nullptr;
  PickedColumns picked_;
  int32_t edge_ = 0;
  RowBlock padded_;
  RowBlock line_;
  std::vector<float*> starts_;  // of the rows in `padded_`
  int32_t reach_[2] = {};
  float weights_[2][Blur::kMostRadius + 1] = {};
  std::vector<RowBlock> cache_;
  std::vector<int32_t> cached_;
};

}  // namespace echobuf::transform
