#pragma once

#include "echobuf/transform/filter.hpp"
#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Bilinear and bicubic resizing, of the whole image or of a window drawn anew each
// time. Rows and columns have separate weights: a row is first resampled along its
// columns, then rows are put together.
//
// Sources: the windows are those of C. Szegedy et al., "Going deeper with convolutions"
// (arXiv:1409.4842), as torchvision's RandomResizedCrop draws them; a filter is as much
// wider as the scale where an image is made smaller (antialiasing).

namespace echobuf::transform {

/// The part of an axis that is resampled.
struct Stretch {
  int32_t begin;
  int32_t size;
  int32_t result;  // its size afterwards
  uint32_t antialias;
  Filter filter = Filter::kTriangle;

  ECHOBUF_HD constexpr double scale() const {
    return static_cast<double>(size) / result;
  }
  /// Pixels of the image that are one unit of the filter.
  ECHOBUF_HD constexpr double unit() const {
    return antialias != 0 ? exact::most(scale(), 1.0) : 1.0;
  }
  /// Half of the filter's width.
  ECHOBUF_HD constexpr double support() const { return filter_reach(filter) * unit(); }
  /// Pixels that each pixel of the result is made of.
  ECHOBUF_HD constexpr int32_t taps() const {
    const double wide = 2.0 * support();
    int32_t count = exact::floor_int(wide);
    if (count < wide) ++count;
    return exact::least(count, size);
  }
};

/// The weights of the pixels that pixel `i` of the result is made of.
class Weights {
 public:
  Weights() = default;  // none yet
  ECHOBUF_HD Weights(const Stretch& s, int32_t i)
      : filter_(s.filter), antialias_(s.antialias), size_(s.size) {
    const int32_t taps = s.taps();
    const double centre = (i + 0.5) * s.scale();
    const double support = s.support();
    inverse_ = 1.0 / s.unit();
    int32_t first = s.antialias != 0
                        ? exact::floor_int(centre - support + 0.5)
                        : exact::floor_int(centre - 0.5) - (filter_reach(filter_) - 1);
    first = exact::most(exact::least(first, s.size - taps), 0);
    // Without antialiasing what is past the edge is the pixel at the edge.
    centre_ = antialias_ == 0 && filter_ == Filter::kTriangle
                  ? exact::least(exact::most(centre, 0.5), s.size - 0.5)
                  : centre;
    from_ = first;
    first_ = s.begin + first;
    sum_ = 0.0;
    for (int32_t k = 0; k < taps; ++k) sum_ += weight(k);
  }

  ECHOBUF_HD int32_t first() const { return first_; }
  /// Of pixel first() + k.
  ECHOBUF_HD float operator()(int32_t k) const {
    return static_cast<float>(weight(k) / sum_);
  }

 private:
  ECHOBUF_HD double weight(int32_t k) const {
    const double distance = from_ + k - centre_ + 0.5;
    if (filter_ == Filter::kTriangle) return triangle(distance * inverse_);
    if (antialias_ != 0) return cubic(distance * inverse_, kCubicOfMany);
    double sum = cubic(distance, kCubicOfFour);
    for (int32_t past = 1; past <= 2; ++past) {
      if (from_ + k == 0) sum += cubic(distance - past, kCubicOfFour);
      if (from_ + k == size_ - 1) sum += cubic(distance + past, kCubicOfFour);
    }
    return sum;
  }

  Filter filter_ = Filter::kTriangle;
  uint32_t antialias_ = 0;
  int32_t size_ = 0;
  double centre_ = 0;
  double inverse_ = 0;
  double sum_ = 0;
  int32_t from_ = 0;  // in the stretch
  int32_t first_ = 0;
};

struct Resample {
  Extent in;
  int32_t height;
  int32_t width;
  uint32_t antialias;
  uint32_t windowed;  // a window of the image; else all of it
  double scale[2];    // of the window: its share of the image's area, least and most
  double ratio[2];    // logarithm of width / height, least and most

  ECHOBUF_MEMBERS(in, height, width, antialias, windowed, scale, ratio, filter)
  Filter filter = Filter::kTriangle;

  /// The window.
  struct Draw {
    int32_t top;
    int32_t left;
    int32_t height;
    int32_t width;
  };

  ECHOBUF_HD Draw draw(Words words) const {
    if (windowed == 0) return {0, 0, in.height, in.width};
    constexpr int kAttempts = 10;
    const double area = static_cast<double>(in.height) * in.width;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double part = area * words.uniform(scale[0], scale[1]);
      const double shape = exact::exp(words.uniform(ratio[0], ratio[1]));
      const double w = exact::round_even(exact::square_root(part * shape));
      const double h = exact::round_even(exact::square_root(part / shape));
      const uint32_t down = words.word();
      const uint32_t right = words.word();
      if (w < 1 || w > in.width || h < 1 || h > in.height) continue;
      const auto rows = static_cast<int32_t>(h);
      const auto columns = static_cast<int32_t>(w);
      return {static_cast<int32_t>(
                  words.place(down, static_cast<uint32_t>(in.height - rows + 1))),
              static_cast<int32_t>(
                  words.place(right, static_cast<uint32_t>(in.width - columns + 1))),
              rows, columns};
    }
    return central();
  }

  ECHOBUF_HD constexpr Stretch stretch(const Draw& d, Axis axis) const {
    if (axis == Axis::kRow) return {d.top, d.height, height, antialias, filter};
    return {d.left, d.width, width, antialias, filter};
  }
  /// Pixels that one of the result is made of at most, whatever the window.
  ECHOBUF_HD constexpr int32_t most_taps(Axis axis) const {
    const int32_t size = axis == Axis::kRow ? in.height : in.width;
    const Stretch all = stretch({0, 0, in.height, in.width}, axis);
    return exact::most(all.taps(), exact::least(2 * filter_reach(filter), size));
  }
  ECHOBUF_HD Extent out() const { return {height, width, in.channels}; }

 private:
  /// The largest window in the middle whose shape is allowed.
  ECHOBUF_HD Draw central() const {
    int32_t h = in.height;
    int32_t w = in.width;
    const double shape = static_cast<double>(w) / h;
    const double least = exact::exp(ratio[0]);
    const double most = exact::exp(ratio[1]);
    if (shape < least)
      h = static_cast<int32_t>(exact::round_even(w / least));
    else if (shape > most)
      w = static_cast<int32_t>(exact::round_even(h * most));
    h = exact::least(exact::most(h, 1), in.height);
    w = exact::least(exact::most(w, 1), in.width);
    return {(in.height - h) / 2, (in.width - w) / 2, h, w};
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_RESAMPLE_OPERATIONS(X) X(resample, Resample)
