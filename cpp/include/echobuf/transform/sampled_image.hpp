// An image that is read at any places, a row of them at once, as the host warps it: the
// same numbers as `Warp::sample` gives, pixel by pixel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

/// Places in an image, one for each column of a row of the result.
struct Places {
  const float* x;
  const float* y;
  int32_t count;
};

/// A copy of the image with zeros around it, so that neighbours of a place are read
/// without a test: what lies outside of the image counts 0. Pixels of up to four bytes
/// are kept as one word, others as planes of floats.
class SampledImage {
 public:
  /// True if an image is not too large: its pixels are numbered with 32 bits.
  static bool takes(const Extent& extent) {
    const Extent all = padded(extent);
    return all.pixels() * all.channels <= std::numeric_limits<int32_t>::max();
  }
  static std::size_t bytes(const Extent& extent, bool packed) {
    const auto pixels = static_cast<std::size_t>(padded(extent).pixels());
    return pixels * sizeof(float) *
           (packed ? 1 : static_cast<std::size_t>(extent.channels));
  }
  static bool is_packed(const Extent& extent, bool bytes) {
    return bytes && extent.channels <= 4;
  }

  SampledImage() = default;
  /// `count`: places of a row, at most. Throws std::bad_alloc; nothing is allocated
  /// later.
  SampledImage(const Extent& extent, bool bytes, int32_t count)
      : extent_(extent),
        stride_(padded(extent).width),
        plane_(static_cast<std::size_t>(padded(extent).pixels())) {
    if (is_packed(extent, bytes))
      words_.resize(plane_);
    else
      numbers_.resize(plane_ * static_cast<std::size_t>(extent.channels));
    index_.resize(static_cast<std::size_t>(count));
    within_.resize(index_.size());
    weights_.resize(5 * index_.size());
    picked_.resize(4 * index_.size());
  }

  const Extent& extent() const { return extent_; }

  /// Takes row `y` of the image.
  void set_row(int32_t y, const unsigned char* const* rows) {
    uint32_t* const __restrict__ to = words_.data() + start_of(y);
    const int32_t width = extent_.width;
    const unsigned char* const first = rows[0];
    if (extent_.channels == 3) {
      const unsigned char* const second = rows[1];
      const unsigned char* const third = rows[2];
      work_fast([=] {
        for (int32_t x = 0; x < width; ++x)
          to[x] = first[x] | uint32_t{second[x]} << 8 | uint32_t{third[x]} << 16;
      });
      return;
    }
    for (int32_t x = 0; x < width; ++x) to[x] = first[x];
    for (int32_t c = 1; c < extent_.channels; ++c)
      for (int32_t x = 0; x < width; ++x) to[x] |= uint32_t{rows[c][x]} << 8 * c;
  }
  /// The same of numbers of any type: where they go.
  float* row_of(int32_t y, int32_t channel) {
    return numbers_.data() + static_cast<std::size_t>(channel) * plane_ + start_of(y);
  }
  bool is_packed() const { return !words_.empty(); }

  /// The nearest pixels, or `fill`, which has a number for each channel.
  void nearest(const Places& places, const float* fill, float* const* rows) {
    find_nearest(places);
    if (is_packed()) pick_words(places.count, 0, picked_.data());
    for (int32_t c = 0; c < extent_.channels; ++c)
      is_packed() ? unpack_nearest(places.count, c, fill[c], rows[c])
                  : pick_nearest(places.count, c, fill[c], rows[c]);
  }

  /// Weighted sums of the four pixels around each place, and of `fill` for what lies
  /// outside of the image; not `covered`: that counts as 0.
  void bilinear(const Places& places, const float* fill, bool covered,
                float* const* rows) {
    find_weights(places);
    const auto count = static_cast<std::size_t>(places.count);
    if (is_packed())
      for (std::size_t k = 0; k < 4; ++k)
        pick_words(places.count, offset(k), picked_.data() + k * count);
    for (int32_t c = 0; c < extent_.channels; ++c)
      is_packed() ? blend_words(places.count, c, fill[c], covered, rows[c])
                  : blend_numbers(places.count, c, fill[c], covered, rows[c]);
  }

 private:
  /// Rows and columns of zeros at each edge: as far as places have neighbours inside.
  static constexpr int32_t kEdge = 2;

  static Extent padded(const Extent& extent) {
    return {extent.height + 2 * kEdge, extent.width + 2 * kEdge, extent.channels};
  }
  std::size_t start_of(int32_t y) const {
    return static_cast<std::size_t>(y + kEdge) * static_cast<std::size_t>(stride_) +
           kEdge;
  }
  /// Of the four pixels around a place, from the first of them.
  int32_t offset(std::size_t k) const {
    return (k / 2 != 0 ? stride_ : 0) + (k % 2 != 0 ? 1 : 0);
  }

  void find_nearest(const Places& places) {
    work_fast([from_x = places.x, from_y = places.y, count = places.count, in = extent_,
               stride = stride_, index = index_.data(), within = within_.data()] {
      for (int32_t i = 0; i < count; ++i) {
        const bool near = is_near(in, from_y[i], from_x[i]);
        const float x = exact::round_even(limited(from_x[i], in.width));
        const float y = exact::round_even(limited(from_y[i], in.height));
        const auto sx = static_cast<int32_t>(x);
        const auto sy = static_cast<int32_t>(y);
        index[i] = (sy + kEdge) * stride + sx + kEdge;
        within[i] = near && is_within(in, sy, sx) ? 1 : 0;
      }
    });
  }

  void find_weights(const Places& places) {
    work_fast([places, in = extent_, stride = stride_, index = index_.data(),
               within = within_.data(), weights = weights_.data()] {
      const int32_t n = places.count;
      weigh(places.x, places.y, n, in, stride, index, within, weights, weights + n,
            weights + 2 * n, weights + 3 * n, weights + 4 * n);
    });
  }
  // Of arguments GCC believes that they lie apart; it tests no more than ten pairs.
  static void weigh(const float* __restrict__ from_x, const float* __restrict__ from_y,
                    int32_t count, const Extent& in, int32_t stride,
                    int32_t* __restrict__ index, int32_t* __restrict__ within,
                    float* __restrict__ top_left, float* __restrict__ top_right,
                    float* __restrict__ bottom_left, float* __restrict__ bottom_right,
                    float* __restrict__ covers) {
    for (int32_t i = 0; i < count; ++i) {
      const float at_x = limited(from_x[i], in.width);
      const float at_y = limited(from_y[i], in.height);
      const int32_t x = exact::floor_int(at_x);
      const int32_t y = exact::floor_int(at_y);
      const float right = at_x - static_cast<float>(x);
      const float down = at_y - static_cast<float>(y);
      const float left_in = exact::choose(is_index(x, in.width), 1.0f - right, 0.0f);
      const float right_in = exact::choose(is_index(x + 1, in.width), right, 0.0f);
      const float top_in = exact::choose(is_index(y, in.height), 1.0f - down, 0.0f);
      const float bottom_in = exact::choose(is_index(y + 1, in.height), down, 0.0f);
      const float a = top_in * left_in;
      const float b = top_in * right_in;
      const float c = bottom_in * left_in;
      const float d = bottom_in * right_in;
      top_left[i] = a;
      top_right[i] = b;
      bottom_left[i] = c;
      bottom_right[i] = d;
      covers[i] = ((a + b) + c) + d;
      index[i] = (y + kEdge) * stride + x + kEdge;
      within[i] = is_near(in, from_y[i], from_x[i]) ? 1 : 0;
    }
  }

  static bool is_index(int32_t i, int32_t size) { return (i >= 0) & (i < size); }
  static bool is_near(const Extent& in, float y, float x) {
    return (x > -1.5f) & (y > -1.5f) & (x < static_cast<float>(in.width) + 0.5f) &
           (y < static_cast<float>(in.height) + 0.5f);
  }
  /// A place that has its neighbours in the copy: itself, where it is near.
  static float limited(float at, int32_t size) {
    at = exact::choose(-1.5f < at, at, -1.5f);  // NaN: -1.5
    const float most = static_cast<float>(size) + 0.5f;
    return exact::choose(most < at, most, at);
  }
  static bool is_within(const Extent& in, int32_t y, int32_t x) {
    return is_index(y, in.height) && is_index(x, in.width);
  }

  void pick_words(int32_t count, int32_t offset, uint32_t* to) const {
    work_fast([from = words_.data() + offset, index = index_.data(), count, to] {
      pick(from, index, count, to);
    });
  }
  template <class T>
  static void pick(const T* __restrict__ from, const int32_t* __restrict__ index,
                   int32_t count, T* __restrict__ to) {
    for (int32_t i = 0; i < count; ++i) to[i] = from[index[i]];
  }
  static float number_in(uint32_t word, int32_t shift) {
    return static_cast<float>(static_cast<int32_t>(word >> shift & 255u));
  }

  void unpack_nearest(int32_t count, int32_t channel, float fill, float* row) const {
    work_fast([from = picked_.data(), within = within_.data(), count, fill, row,
               shift = 8 * channel] {
      float* const __restrict__ to = row;
      for (int32_t i = 0; i < count; ++i)
        to[i] = exact::choose(within[i] != 0, number_in(from[i], shift), fill);
    });
  }
  void pick_nearest(int32_t count, int32_t channel, float fill, float* row) const {
    work_fast([from = plane(channel), index = index_.data(), within = within_.data(),
               count, fill, to = row] {
      pick(from, index, count, to);
      for (int32_t i = 0; i < count; ++i) to[i] = within[i] != 0 ? to[i] : fill;
    });
  }

  void blend_words(int32_t count, int32_t channel, float fill, bool covered,
                   float* row) const {
    work_fast([words = picked_.data(), weights = weights_.data(),
               within = within_.data(), count, fill, covered, row,
               shift = 8 * channel] {
      float* const __restrict__ to = row;
      for (int32_t i = 0; i < count; ++i) {
        float v = number_in(words[i], shift) * weights[i];
        v = 0.0f + v;
        v = v + number_in(words[count + i], shift) * weights[count + i];
        v = v + number_in(words[2 * count + i], shift) * weights[2 * count + i];
        v = v + number_in(words[3 * count + i], shift) * weights[3 * count + i];
        const float over = (v - fill) * weights[4 * count + i] + fill;
        to[i] = exact::choose(within[i] == 0, fill, exact::choose(covered, over, v));
      }
    });
  }
  void blend_numbers(int32_t count, int32_t channel, float fill, bool covered,
                     float* row) const {
    work_fast([from = plane(channel), index = index_.data(), weights = weights_.data(),
               within = within_.data(), stride = stride_, count, fill, covered, row] {
      blend(from, stride, index, weights, within, count, fill, covered, row);
    });
  }
  static void blend(const float* __restrict__ from, int32_t stride,
                    const int32_t* __restrict__ index,
                    const float* __restrict__ weights,
                    const int32_t* __restrict__ within, int32_t count, float fill,
                    bool covered, float* __restrict__ to) {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t at = index[i];
      float v = from[at] * weights[i];
      v = 0.0f + v;  // no negative zero
      v = v + from[at + 1] * weights[count + i];
      v = v + from[at + stride] * weights[2 * count + i];
      v = v + from[at + stride + 1] * weights[3 * count + i];
      const float over = (v - fill) * weights[4 * count + i] + fill;
      to[i] = exact::choose(within[i] == 0, fill, exact::choose(covered, over, v));
    }
  }
  const float* plane(int32_t channel) const {
    return numbers_.data() + static_cast<std::size_t>(channel) * plane_;
  }

  Extent extent_{};
  int32_t stride_ = 0;
  std::size_t plane_ = 0;
  std::vector<uint32_t> words_;
  std::vector<float> numbers_;
  std::vector<int32_t> index_;   // of a place's pixel, or the first of four
  std::vector<int32_t> within_;  // 1: it is in the image, or near to it
  std::vector<float> weights_;   // of the four pixels; and their sum
  std::vector<uint32_t> picked_;
};

}  // namespace echobuf::transform
