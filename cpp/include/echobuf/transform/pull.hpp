#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/transform/stage.hpp"

// One pixel of a stage's result, from the pixels of its source: what a thread of a
// kernel does. On the host `rows.hpp` does the same row by row; the results are the
// same bit for bit.
//
// `Ops`: the operations of a stage with what chance said about them. `ops.visit(i,
// use)` calls `use(op, draw)` with operation i as its own type.

namespace echobuf::transform {

/// The index before the maps [begin, end) of index `i` after them, or kOutside.
template <class Ops>
ECHOBUF_HD int32_t unmap(const Ops& ops, int32_t begin, int32_t end, Axis axis,
                         int32_t i) {
  ECHOBUF_UNROLL
  for (int32_t k = end - 1; k >= begin; --k) {
    if (i == kOutside) break;
    ops.visit(k, [&](const auto& op, const auto& draw) {
      if constexpr (requires { op.source(draw, axis, i); })
        i = op.source(draw, axis, i);
    });
  }
  return i;
}

/// The same of `count` indices from `first` on.
template <class Ops>
void unmap_all(const Ops& ops, int32_t begin, int32_t end, Axis axis, int32_t first,
               int32_t count, int32_t* index) {
  for (int32_t i = 0; i < count; ++i) index[i] = first + i;
  for (int32_t k = end - 1; k >= begin; --k)
    ops.visit(k, [&](const auto& op, const auto& draw) {
      if constexpr (requires { op.source(draw, axis, 0); }) {
        const auto map = op;  // no store to `index` changes it
        const auto drawn = draw;
        for (int32_t i = 0; i < count; ++i)
          index[i] =
              index[i] == kOutside ? kOutside : map.source(drawn, axis, index[i]);
      }
    });
}

/// The number that a fill has in a channel.
template <class Ops>
ECHOBUF_HD double fill_of(const Ops& ops, int32_t channel) {
  double fill = 0;
  ops.visit(ops.stage().fill, [&](const auto& op, const auto&) {
    if constexpr (requires { op.border; }) fill = op.fill[channel];
  });
  return fill;
}

template <class Ops>
class Puller {
 public:
  /// `source`: where the stage's image is.
  ECHOBUF_HD Puller(const Ops& ops, uint64_t source)
      : ops_(ops), stage_(ops.stage()), source_(source) {}

  /// Pixel (y, x) once pixels were moved.
  ECHOBUF_HD void moved(int32_t y, int32_t x, float* v) const {
    const int32_t channels = stage_.source.extent.channels;
    if (stage_.core == Core::kOneHot) {
      v[0] = number(0, 0, 0) == static_cast<float>(x) ? 1.0f : 0.0f;
      return;
    }
    const int32_t sy = unmap(ops_, stage_.first_after(), stage_.after, Axis::kRow, y);
    const int32_t sx =
        unmap(ops_, stage_.first_after(), stage_.after, Axis::kColumn, x);
    if (sy == kOutside || sx == kOutside) {
      for (int32_t c = 0; c < channels; ++c)
        v[c] = static_cast<float>(fill_of(ops_, c));
      return;
    }
    if (stage_.core == Core::kNone) {
      before(sy, sx, v);
    } else {
      const auto pixels = [&](int32_t iy, int32_t ix, float* pixel) {
        before(iy, ix, pixel);
      };
      ops_.visit(stage_.before, [&](const auto& op, const auto& draw) {
        if constexpr (requires { op.stretch(draw, Axis::kRow); })
          resample(op, draw, sy, sx, y, x, v);
        else if constexpr (requires { op.bilinear; })
          op.sample(draw, sy, sx, v, [&](int32_t iy, int32_t ix, int32_t c) {
            return before(iy, ix, c);
          });
        else if constexpr (requires { op.reach(draw, Axis::kRow); })
          op.sample(draw, ops_.spread(draw, Axis::kRow),
                    ops_.spread(draw, Axis::kColumn), sy, sx, v, pixels);
        else if constexpr (requires { op.sample(draw, sy, sx, v, pixels); })
          op.sample(draw, sy, sx, v, pixels);
      });
    }
    for (int32_t c = 0; c < channels; ++c) v[c] = whole(stage_.whole, v[c]);
  }

  /// The same where pixels of bytes are moved, and no more.
  ECHOBUF_HD void moved_bytes(int32_t y, int32_t x, uint32_t* v) const {
    const int32_t sy = unmap(ops_, 0, stage_.after, Axis::kRow, y);
    const int32_t sx = unmap(ops_, 0, stage_.after, Axis::kColumn, x);
    const int32_t channels = stage_.source.extent.channels;
    if (sy == kOutside || sx == kOutside) {
      for (int32_t c = 0; c < channels; ++c)
        v[c] = static_cast<uint32_t>(static_cast<int32_t>(fill_of(ops_, c)) & 255);
    } else {
      for (int32_t c = 0; c < channels; ++c) {
        const auto at = static_cast<uint64_t>(stage_.source.offset(sy, sx, c));
        v[c] = device::load<uint8_t>(source_ + at);
      }
    }
  }

  /// Changes the numbers of a pixel by the operations [begin, end).
  ECHOBUF_HD void change(int32_t begin, int32_t end, int32_t y, int32_t x,
                         float* v) const {
    const Place at{y, x, stage_.target.extent};
    ECHOBUF_UNROLL
    for (int32_t k = begin; k < end; ++k)
      ops_.visit(k, [&](const auto& op, const auto& draw) {
        if constexpr (requires { op.element(draw, 0.0f, 0, at); }) {
          for (int32_t c = 0; c < at.extent.channels; ++c)
            v[c] = op.element(draw, v[c], c, at);
        } else if constexpr (requires { op.pixel(draw, v, at); }) {
          op.pixel(draw, v, at);
        }
      });
  }

  ECHOBUF_HD static float whole(Whole how, float v) {
    if (how == Whole::kNo) return v;
    if (how == Whole::kHalfEven) return exact::round_even(v);
    const float raised = v + 0.5f;
    v = static_cast<float>(static_cast<int32_t>(raised));
    return exact::least(exact::most(v, 0.0f), 255.0f);
  }

 private:
  ECHOBUF_HD float number(int32_t y, int32_t x, int32_t c) const {
    const auto at = static_cast<uint64_t>(stage_.source.offset(y, x, c));
    return load_number(stage_.source.type, source_ + at);
  }

  /// The input of the core, or of the maps behind it.
  ECHOBUF_HD void before(int32_t y, int32_t x, float* v) const {
    const int32_t sy = unmap(ops_, 0, stage_.before, Axis::kRow, y);
    const int32_t sx = unmap(ops_, 0, stage_.before, Axis::kColumn, x);
    for (int32_t c = 0; c < stage_.source.extent.channels; ++c)
      v[c] = number_or_fill(sy, sx, c);
  }
  ECHOBUF_HD float before(int32_t y, int32_t x, int32_t c) const {
    return number_or_fill(unmap(ops_, 0, stage_.before, Axis::kRow, y),
                          unmap(ops_, 0, stage_.before, Axis::kColumn, x), c);
  }
  ECHOBUF_HD float number_or_fill(int32_t y, int32_t x, int32_t c) const {
    if (y == kOutside || x == kOutside) return static_cast<float>(fill_of(ops_, c));
    return number(y, x, c);
  }

  template <class Op>
  ECHOBUF_HD void resample(const Op& op, const typename Op::Draw& draw, int32_t sy,
                           int32_t sx, int32_t y, int32_t x, float* v) const {
    const int32_t channels = stage_.source.extent.channels;
    const Stretch rows = op.stretch(draw, Axis::kRow);
    const Stretch columns = op.stretch(draw, Axis::kColumn);
    const auto down = ops_.weights(rows, Axis::kRow, sy, y);
    const auto across = ops_.weights(columns, Axis::kColumn, sx, x);
    const int32_t rows_taps = rows.taps();
    const int32_t columns_taps = columns.taps();
    for (int32_t c = 0; c < channels; ++c) v[c] = 0.0f;
    for (int32_t j = 0; j < rows_taps; ++j) {
      float row[kMostChannels] = {};
      for (int32_t k = 0; k < columns_taps; ++k) {
        float pixel[kMostChannels] = {};
        before(down.first() + j, across.first() + k, pixel);
        const float weight = across(k);
        for (int32_t c = 0; c < channels; ++c) row[c] = row[c] + pixel[c] * weight;
      }
      const float weight = down(j);
      for (int32_t c = 0; c < channels; ++c) v[c] = v[c] + row[c] * weight;
    }
  }

  const Ops& ops_;
  const StagePlan stage_;
  const uint64_t source_;
};

/// Pixel (y, x) of a stage's result; `partner`: of the example that it is mixed with.
template <class Ops>
ECHOBUF_HD void pull(const Ops& ops, uint64_t source, const Ops& partner_ops,
                     uint64_t partner, int32_t y, int32_t x, float* v) {
  const StagePlan stage = ops.stage();
  const Puller<Ops> own(ops, source);
  own.moved(y, x, v);
  if (stage.mix < 0) return own.change(stage.after, stage.count, y, x, v);
  own.change(stage.after, stage.mix, y, x, v);
  float other[kMostChannels];
  const Puller<Ops> others(partner_ops, partner);
  others.moved(y, x, other);
  others.change(stage.after, stage.mix, y, x, other);
  const Place at{y, x, stage.target.extent};
  ops.visit(stage.mix, [&](const auto& op, const auto& draw) {
    if constexpr (requires { op.element(draw, 0.0f, 0.0f, at); })
      for (int32_t c = 0; c < at.extent.channels; ++c)
        v[c] = op.element(draw, v[c], other[c], at);
  });
  own.change(stage.mix + 1, stage.count, y, x, v);
}

// ---- stages that move bytes

/// One element by its size and not its type, in the largest numbers that divide it: an
/// element of twelve bytes lies at a multiple of four.
ECHOBUF_HD inline void copy_element(uint64_t to, uint64_t from, uint32_t bytes) {
  const uint32_t unit = exact::least(bytes & (0u - bytes), 8u);
  for (uint32_t i = 0; i < bytes; i += unit) copy_scalar(to + i, from + i, unit);
}

ECHOBUF_HD inline int64_t load_whole(NumberType type, uint64_t address) {
  return with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return static_cast<int64_t>(device::load<T>(address));
  });
}
template <class T>
ECHOBUF_HD void store_as(NumberType type, uint64_t address, T value) {
  with_type(type, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    if constexpr (requires { U::of(0.0f); })
      device::store(address, U::of(static_cast<float>(value)));
    else
      device::store(address, static_cast<U>(value));
  });
}

/// The elements of pixel (y, x), to where the target's lie.
template <class Ops>
ECHOBUF_HD void pull_raw(const Ops& ops, uint64_t source, uint64_t target, int32_t y,
                         int32_t x) {
  const StagePlan stage = ops.stage();
  const int32_t sy = unmap(ops, 0, stage.after, Axis::kRow, y);
  const int32_t sx = unmap(ops, 0, stage.after, Axis::kColumn, x);
  const bool outside = sy == kOutside || sx == kOutside;
  const Place at{y, x, stage.target.extent};
  for (int32_t c = 0; c < stage.target.extent.channels; ++c) {
    const uint64_t to = target + static_cast<uint64_t>(stage.target.offset(y, x, c));
    const uint64_t from =
        source + static_cast<uint64_t>(outside ? 0 : stage.source.offset(sy, sx, c));
    if (stage.count > stage.after) {
      ops.visit(stage.after, [&](const auto& op, const auto& draw) {
        if constexpr (requires { op.token(draw, int64_t{}, 0u); })
          store_as(stage.target.type, to,
                   op.token(draw,
                            outside ? static_cast<int64_t>(fill_of(ops, c))
                                    : load_whole(stage.source.type, from),
                            at.element(c)));
      });
    } else if (outside) {
      store_as(stage.target.type, to, fill_of(ops, c));
    } else {
      copy_element(to, from, stage.target.bytes);
    }
  }
}

}  // namespace echobuf::transform
