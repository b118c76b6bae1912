#pragma once

#include "echobuf/transform/maps.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/resample.hpp"
#include "echobuf/transform/warp.hpp"

// Boxes and points that follow the pixels of an image. Their leaf is an image of one
// row, whose pixels are boxes (x1, y1, x2, y2) or points (x, y), in pixels of the
// image. Each operation that moves pixels has a companion here, which holds it, for the
// same random choices, and maps numbers from the image to the result.
//
// Conventions and arithmetic are those of torchvision 0.29.1 (transforms/v2/functional/
// _geometry.py and _meta.py): crops and affine maps clip boxes, flips and resizing do
// not; a flip takes whole numbers for edges in boxes, and for pixels in points.

namespace echobuf::transform {

/// The kind of a leaf's pixels, and the number that those have which left the image.
struct PointForm {
  uint32_t boxes;    // else points
  uint32_t outside;  // the bits of a float, which may be a NaN

  ECHOBUF_MEMBERS(boxes, outside)

  ECHOBUF_HD int size() const { return boxes != 0 ? 4 : 2; }

  ECHOBUF_HD bool is_marked(const float* v) const {
    const float mark = exact::float_of(outside);
    bool all = true;
    for (int i = 0; i < size(); ++i)
      all = all && (v[i] == mark || (mark != mark && v[i] != v[i]));
    return all;
  }
  ECHOBUF_HD void mark(float* v) const {
    for (int i = 0; i < size(); ++i) v[i] = exact::float_of(outside);
  }

  /// Cuts a box at the edges of an image, and marks it if less than `least` in width or
  /// height is left; marks a point that is not in the image. A NaN is nowhere.
  ECHOBUF_HD void clip(float* v, int32_t height, int32_t width,
                       float least = 0.0f) const {
    const auto right = static_cast<float>(width);
    const auto bottom = static_cast<float>(height);
    bool stays;
    if (boxes != 0) {
      for (int i = 0; i < 4; ++i)
        v[i] = exact::least(exact::most(v[i], 0.0f), i % 2 == 0 ? right : bottom);
      const float wide = v[2] - v[0];
      const float high = v[3] - v[1];
      stays = wide > 0.0f && high > 0.0f && wide >= least && high >= least;
    } else {
      stays = v[0] >= 0.0f && v[0] < right && v[1] >= 0.0f && v[1] < bottom;
    }
    if (!stays) mark(v);
  }

  ECHOBUF_HD void move(float* v, float right, float down) const {
    for (int i = 0; i < size(); ++i) v[i] = v[i] + (i % 2 == 0 ? right : down);
  }
  ECHOBUF_HD void scale(float* v, float across, float down) const {
    for (int i = 0; i < size(); ++i) v[i] = v[i] * (i % 2 == 0 ? across : down);
  }

  /// Puts a point where a map takes it, and a box around where its four corners go;
  /// then clips them. `map`: has `x` and `y` of a point.
  template <class Map>
  ECHOBUF_HD void follow(const Map& map, float* v, int32_t height,
                         int32_t width) const {
    const float left = v[0], top = v[1];
    const float x = map.x(left, top);
    const float y = map.y(left, top);
    if (boxes == 0) {
      v[0] = x;
      v[1] = y;
    } else {
      const float right = v[2], bottom = v[3];
      v[0] = v[2] = x;
      v[1] = v[3] = y;
      const float xs[3] = {map.x(right, top), map.x(right, bottom),
                           map.x(left, bottom)};
      const float ys[3] = {map.y(right, top), map.y(right, bottom),
                           map.y(left, bottom)};
      for (int i = 0; i < 3; ++i) {
        v[0] = low(v[0], xs[i]);
        v[1] = low(v[1], ys[i]);
        v[2] = high(v[2], xs[i]);
        v[3] = high(v[3], ys[i]);
      }
    }
    clip(v, height, width);
  }

 private:
  // A NaN stays, of either.
  ECHOBUF_HD static float low(float a, float b) { return b < a || b != b ? b : a; }
  ECHOBUF_HD static float high(float a, float b) { return a < b || b != b ? b : a; }
};

/// The factor by which an axis of `size` pixels becomes one of `result`.
ECHOBUF_HD inline float resized_by(int32_t size, int32_t result) {
  return static_cast<float>(static_cast<double>(result) / static_cast<double>(size));
}

struct CropPoints {
  Crop crop;
  PointForm form;

  ECHOBUF_MEMBERS(crop, form)

  using Draw = Crop::Draw;

  ECHOBUF_HD Draw draw(Words words) const { return crop.draw(words); }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (form.is_marked(v)) return;
    // The border comes first, as an operation of its own.
    const int32_t above = exact::most(-crop.top, 0);
    const int32_t before = exact::most(-crop.left, 0);
    form.move(v, static_cast<float>(before), static_cast<float>(above));
    form.move(v, -static_cast<float>(d.left + before),
              -static_cast<float>(d.top + above));
    form.clip(v, crop.height, crop.width);
  }
};

struct FlipPoints {
  Flip flip;
  PointForm form;

  ECHOBUF_MEMBERS(flip, form)

  using Draw = Flip::Draw;

  ECHOBUF_HD Draw draw(Words words) const { return flip.draw(words); }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (d.on == 0 || form.is_marked(v)) return;
    const int first = flip.axis == Axis::kColumn ? 0 : 1;
    const int32_t size = flip.axis == Axis::kColumn ? flip.in.width : flip.in.height;
    if (form.boxes == 0) {
      const auto last = static_cast<float>(size - 1);
      v[0] = first == 0 ? last - v[0] : v[0];
      v[1] = first == 0 ? v[1] : last - v[1];
      return;
    }
    const auto end = static_cast<float>(size);
    const float low = end - (first == 0 ? v[2] : v[3]);
    const float high = end - (first == 0 ? v[0] : v[1]);
    v[0] = first == 0 ? low : v[0];
    v[1] = first == 0 ? v[1] : low;
    v[2] = first == 0 ? high : v[2];
    v[3] = first == 0 ? v[3] : high;
  }
};

/// Of an image that is resized as a whole, by any filter.
struct ResizePoints {
  Extent in;
  int32_t height;
  int32_t width;
  PointForm form;

  ECHOBUF_MEMBERS(in, height, width, form)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words) const { return {}; }
  ECHOBUF_HD void pixel(const Draw&, float* v, const Place&) const {
    if (form.is_marked(v)) return;
    form.scale(v, resized_by(in.width, width), resized_by(in.height, height));
  }
};

/// Of a `Resample`, or a `NearestWindow`, of windows with the same numbers.
struct WindowPoints {
  Extent in;
  int32_t height;
  int32_t width;
  double scale[2];
  double ratio[2];
  PointForm form;

  ECHOBUF_MEMBERS(in, height, width, scale, ratio, form)

  using Draw = Resample::Draw;

  ECHOBUF_HD Draw draw(Words words) const {
    const Resample windows{
        in, height, width, 0, 1, {scale[0], scale[1]}, {ratio[0], ratio[1]}};
    return windows.draw(words);
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (form.is_marked(v)) return;
    form.move(v, -static_cast<float>(d.left), -static_cast<float>(d.top));
    form.clip(v, d.height, d.width);
    if (form.is_marked(v)) return;
    form.scale(v, resized_by(d.width, width), resized_by(d.height, height));
  }
};

/// A box becomes the one around its four corners.
struct WarpPoints {
  Warp warp;
  PointForm form;

  ECHOBUF_MEMBERS(warp, form)

  /// The place in the result of point (x, y) of the image, from its corner.
  struct Draw {
    double xx, xy, x0;
    double yx, yy, y0;

    ECHOBUF_HD float x(float px, float py) const {
      return static_cast<float>(xx * static_cast<double>(px) +
                                xy * static_cast<double>(py) + x0);
    }
    ECHOBUF_HD float y(float px, float py) const {
      return static_cast<float>(yx * static_cast<double>(px) +
                                yy * static_cast<double>(py) + y0);
    }
  };

  ECHOBUF_HD Draw draw(Words words) const {
    const AffineDraw t = draw_affine(words, warp.degrees, warp.shift, warp.scale,
                                     warp.shear_x, warp.shear_y);
    const double cx = 0.5 * warp.in.width + warp.centre[0];
    const double cy = 0.5 * warp.in.height + warp.centre[1];
    const double xx = t.a * t.size, xy = t.b * t.size;
    const double yx = t.c * t.size, yy = t.d * t.size;
    return {xx, xy, cx + t.right - xx * cx - xy * cy,
            yx, yy, cy + t.down - yx * cx - yy * cy};
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (form.is_marked(v)) return;
    form.follow(d, v, warp.in.height, warp.in.width);
  }
};

/// The end of a chain: what is outside of the image `in`, or too small, is marked.
struct SanitizePoints {
  Extent in;
  float min_size;
  PointForm form;

  ECHOBUF_MEMBERS(in, min_size, form)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words) const { return {}; }
  ECHOBUF_HD void pixel(const Draw&, float* v, const Place&) const {
    if (!form.is_marked(v)) form.clip(v, in.height, in.width, min_size);
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_POINTS_OPERATIONS(X) \
  X(crop_points, CropPoints)         \
  X(flip_points, FlipPoints)         \
  X(resize_points, ResizePoints)     \
  X(window_points, WindowPoints)     \
  X(warp_points, WarpPoints)         \
  X(sanitize_points, SanitizePoints)
