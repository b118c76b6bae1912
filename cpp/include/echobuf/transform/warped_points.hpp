#pragma once

#include "echobuf/transform/graded.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/perspective.hpp"
#include "echobuf/transform/points.hpp"

// Boxes and points that follow the warps of automatic augmentations, and the moved
// corners of an image: see points.hpp. A box becomes the one around its four corners,
// and is clipped.

namespace echobuf::transform {

struct GradedWarpPoints {
  GradedWarp warp;
  PointForm form;

  ECHOBUF_MEMBERS(warp, form)

  using Draw = WarpPoints::Draw;

  ECHOBUF_HD Draw draw(Words words) const {
    const auto level = static_cast<double>(warp.levels.pick(words));
    Draw d{1, 0, 0, 0, 1, 0};
    if (warp.kind == GradedWarp::kShearX) {
      d.xy = -level;
    } else if (warp.kind == GradedWarp::kShearY) {
      d.yx = -level;
    } else if (warp.kind == GradedWarp::kTranslateX) {
      d.x0 = exact::cut_int(static_cast<float>(level));
    } else if (warp.kind == GradedWarp::kTranslateY) {
      d.y0 = exact::cut_int(static_cast<float>(level));
    } else {
      const exact::Turn turn = exact::turn(-level);
      const double cx = 0.5 * warp.in.width, cy = 0.5 * warp.in.height;
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
    if (!form.is_marked(v)) form.follow(d, v, warp.in.height, warp.in.width);
  }
};

/// What an image that stays as it is has outside of it stays there.
struct PerspectivePoints {
  Perspective image;
  PointForm form;

  ECHOBUF_MEMBERS(image, form)

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
    Draw d{{{1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0}}, 0};
    if (!words.chance(image.p)) return d;
    const Corners corners = image.corners(words);
    if (!is_invertible(corners)) return d;
    return {map_to(corners, image.in.width, image.in.height), 1};
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (d.on != 0 && !form.is_marked(v))
      form.follow(d, v, image.in.height, image.in.width);
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_WARPED_POINTS_OPERATIONS(X) \
  X(graded_warp_points, GradedWarpPoints)   \
  X(perspective_points, PerspectivePoints)
