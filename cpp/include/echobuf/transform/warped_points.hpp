#pragma once

#include "echobuf/transform/graded.hpp"
#include "echobuf/transform/perspective.hpp"
#include "echobuf/transform/points.hpp"

// Boxes and points that follow the warps of automatic augmentations, and the moved
// corners of an image: see points.hpp. A box becomes the one around its four corners,
// and is clipped.

namespace echobuf::transform {

/// Of a `GradedWarp` with the same numbers.
struct GradedWarpPoints {
  Extent in;
  uint32_t kind;
  Levels levels;
  uint32_t boxes;
  uint32_t outside;

  using Draw = WarpPoints::Draw;

  ECHOBUF_HD Draw draw(Words words) const {
    const auto level = static_cast<double>(levels.pick(words));
    Draw d{1, 0, 0, 0, 1, 0};
    if (kind == GradedWarp::kShearX) {
      d.xy = -level;
    } else if (kind == GradedWarp::kShearY) {
      d.yx = -level;
    } else if (kind == GradedWarp::kTranslateX) {
      d.x0 = exact::cut_int(static_cast<float>(level));
    } else if (kind == GradedWarp::kTranslateY) {
      d.y0 = exact::cut_int(static_cast<float>(level));
    } else {
      const exact::Turn turn = exact::turn(-level);
      const double cx = 0.5 * in.width, cy = 0.5 * in.height;
      d.xx = turn.cosine;
      d.xy = -turn.sine;
      d.yx = turn.sine;
      d.yy = turn.cosine;
      d.x0 = cx - d.xx * cx - d.xy * cy;
      d.y0 = cy - d.yx * cx - d.yy * cy;
    }
    return d;
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    const PointForm form{boxes, outside};
    if (!form.is_marked(v)) form.follow(d, v, in.height, in.width);
  }
};

/// Of a `Perspective` with the same numbers. What an image that stays as it is has
/// outside of it stays there.
struct PerspectivePoints {
  Extent in;
  double p;
  int32_t down;
  int32_t right;
  uint32_t boxes;
  uint32_t outside;

  /// The place in the result of point (x, y) of the image, from its corner. `on`: 0
  /// leaves each row as it is.
  struct Draw {
    Homography to;
    uint32_t on;

    ECHOBUF_HD float x(float px, float py) const { return at(0, px, py); }
    ECHOBUF_HD float y(float px, float py) const { return at(3, px, py); }

   private:
    ECHOBUF_HD float at(int first, double px, double py) const {
      const double* const row = to.m + first;
      return static_cast<float>((row[0] * px + row[1] * py + row[2]) /
                                (to.m[6] * px + to.m[7] * py + 1.0));
    }
  };

  ECHOBUF_HD Draw draw(Words words) const {
    const Perspective image{in, 0, p, down, right, {}};
    Draw d{{{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}}, 0};
    if (!words.chance(p)) return d;
    const Corners corners = image.corners(words);
    if (!is_invertible(corners)) return d;
    return {map_to(corners, in.width, in.height), 1};
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    const PointForm form{boxes, outside};
    if (d.on != 0 && !form.is_marked(v)) form.follow(d, v, in.height, in.width);
  }
};

}  // namespace echobuf::transform
