// A warp on the host, row by row. The operation says where a pixel comes from by
// `origin(draw, y, x)`, and has `in`, `bilinear` (2: what is outside counts 0, and no
// fill covers it) and `fill`, as `Warp` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/sampled_image.hpp"
#include "echobuf/transform/source_rows.hpp"

namespace echobuf::transform {

class WarpRows {
 public:
  /// The rows of a stage's warp; nothing for other stages, for operations without
  /// `origin` and for images that are too large. Throws std::bad_alloc; nothing is
  /// allocated later.
  static std::optional<WarpRows> of(const Stage& stage) {
    if (!takes(stage) || !has_origin(stage)) return std::nullopt;
    return WarpRows(stage);
  }
  /// Bytes of the image's copy.
  static std::size_t bytes(const Stage& stage) {
    if (!takes(stage)) return 0;
    const Extent in = extent_of(stage);
    return SampledImage::bytes(in, SampledImage::is_packed(in, is_bytes(stage.source)));
  }
  /// Columns that a row of the warp's image has; 0 for other stages.
  static int32_t width(const Stage& stage) {
    return is_warp(stage) ? extent_of(stage).width : 0;
  }

  /// Takes the image. `read(y, rows)` reads a row of it, as bytes or as floats.
  template <class Read>
  void begin(const HostOps& ops, Read&& read) {
    const Stage& stage = ops.stage();
    const Extent& in = image_.extent();
    for (int32_t y = 0; y < in.height; ++y) {
      if (image_.is_packed()) {
        read(y, bytes_.rows());
        image_.set_row(y, bytes_.rows());
      } else {
        float* rows[kMostChannels];
        for (int32_t c = 0; c < in.channels; ++c) rows[c] = image_.row_of(y, c);
        read(y, static_cast<float* const*>(rows));
      }
    }
    has_outside_ = false;
    for (int32_t x = 0; x < stage.target.extent.width; ++x) {
      const int32_t from =
          unmap(ops, stage.first_after(), stage.after, Axis::kColumn, x);
      columns_[static_cast<std::size_t>(x)] = from;
      has_outside_ = has_outside_ || from == kOutside;
    }
  }

  /// True if some columns of the result come from outside of the warp's.
  bool has_outside() const { return has_outside_; }

  /// Row `y` of the warp's result, its columns mapped. What comes from outside of that
  /// is left undefined.
  void row(const HostOps& ops, int32_t y, float* const* rows) {
    ops.visit(ops.stage().before, [&](const auto& op, const auto& draw) {
      if constexpr (requires { op.origin(draw, y, 0); }) {
        find_places(op, draw, y);
        const Places places{places_[0], places_[1], count()};
        bool bilinear = op.bilinear != 0;
        if constexpr (requires { draw.on; }) bilinear = bilinear && draw.on != 0;
        if (bilinear)
          image_.bilinear(places, op.fill, op.bilinear != 2, rows);
        else
          image_.nearest(places, op.fill, rows);
      }
    });
    if (ops.stage().whole == Whole::kHalfEven)
      for (int32_t c = 0; c < image_.extent().channels; ++c) make_even(rows[c]);
  }

 private:
  static bool has_origin(const Stage& stage) {
    DrawBlock draws[kMostOps] = {};
    bool has = false;
    HostOps(stage, draws).visit(stage.before, [&](const auto& op, const auto& draw) {
      has = requires { op.origin(draw, 0, 0); };
    });
    return has;
  }

  explicit WarpRows(const Stage& stage)
      : image_(extent_of(stage), is_bytes(stage.source), stage.target.extent.width),
        columns_(static_cast<std::size_t>(stage.target.extent.width)),
        places_(stage.target.extent.width, 2) {
    if (image_.is_packed())
      bytes_ = ByteRows(image_.extent().width, image_.extent().channels);
  }

  static bool is_warp(const Stage& stage) {
    return stage.core == Core::kWarp || stage.core == Core::kPerspective;
  }
  static bool takes(const Stage& stage) {
    return is_warp(stage) && SampledImage::takes(extent_of(stage));
  }
  static Extent extent_of(const Stage& stage) {
    const OpBlock& op = stage.ops[stage.before];
    if (op.code == OpCode::kGradedWarp) return op.as<GradedWarp>().in;
    return stage.core == Core::kPerspective ? op.as<Perspective>().in
                                            : op.as<Warp>().in;
  }
  int32_t count() const { return static_cast<int32_t>(columns_.size()); }

  template <class Op, class Draw>
  void find_places(const Op& settings, const Draw& draw, int32_t y) {
    work_fast([op = settings, d = draw, y, count = count(), columns = columns_.data(),
               to_x = places_[0], to_y = places_[1]] {
      for (int32_t x = 0; x < count; ++x) {
        const auto place = op.origin(d, y, columns[x]);
        to_x[x] = place.x;
        to_y[x] = place.y;
      }
    });
  }
  void make_even(float* __restrict__ row) const {
    work_fast([row, count = count()] {
      for (int32_t x = 0; x < count; ++x) row[x] = exact::round_even(row[x]);
    });
  }

  SampledImage image_;
  std::vector<int32_t> columns_;  // of the warp's result, of each column after the maps
  RowBlock places_;
  ByteRows bytes_;
  bool has_outside_ = false;
};

}  // namespace echobuf::transform
