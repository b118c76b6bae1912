#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Operations that change numbers where they are. Each has settings, a Draw (what chance
// said for one draw of an example), and `element`: one number from one number.

namespace echobuf::transform {

/// (v * scale - mean) / deviation, each channel by its own.
struct Normalize {
  float scale;
  float mean[kMostChannels];
  float deviation[kMostChannels];

  ECHOBUF_MEMBERS(scale, mean, deviation)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words, const Extent&) const { return {}; }
  ECHOBUF_HD float element(const Draw&, float v, int channel, const Place&) const {
    return (v * scale - mean[channel]) / deviation[channel];
  }
};

/// Multiplies by one number.
struct Scale {
  float factor;

  ECHOBUF_MEMBERS(factor)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words, const Extent&) const { return {}; }
  ECHOBUF_HD float element(const Draw&, float v, int, const Place&) const {
    return v * factor;
  }
};

/// Brings numbers to those that a narrower type has.
struct Round {
  NumberType type;

  ECHOBUF_MEMBERS(type)

  struct Draw {};

  ECHOBUF_HD Draw draw(Words, const Extent&) const { return {}; }
  ECHOBUF_HD float element(const Draw&, float v, int, const Place&) const {
    if (type == NumberType::kFloat16) return float_of_half(half_of(v));
    if (type == NumberType::kBfloat16) return float_of_bfloat(bfloat_of(v));
    if (type == NumberType::kUint8) {
      const float limited = v > 0.0f ? exact::least(v, 255.0f) : 0.0f;  // NaN: 0
      return static_cast<float>(static_cast<int32_t>(limited));
    }
    return v;
  }
};

/// Multiplies by a gain that is uniform in decibels.
struct Gain {
  double low;
  double high;

  ECHOBUF_MEMBERS(low, high)

  struct Draw {
    float factor;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    constexpr double kPerDecibel = 0.11512925464970228;  // ln 10 / 20
    return {static_cast<float>(exact::exp(words.antithetic(low, high) * kPerDecibel))};
  }
  ECHOBUF_HD float element(const Draw& d, float v, int, const Place&) const {
    return v * d.factor;
  }
};

/// Adds normal noise. For integers it is cut to one first, as torchvision does.
struct Noise {
  float mean;
  float sigma;
  float most;        // numbers are brought to 0 ... `most`,
  uint32_t clip;     // if that is asked for
  uint32_t integer;  // 8 bits without `clip`: what does not fit wraps around

  ECHOBUF_MEMBERS(mean, sigma, most, clip, integer)

  struct Draw {
    Words words;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const { return {words}; }
  ECHOBUF_HD float element(const Draw& d, float v, int channel, const Place& at) const {
    return added(v, normal(d.words.element(at.element(channel)).word[0]));
  }
  /// A number with noise, of which `quantile` is that of the standard distribution.
  ECHOBUF_HD float added(float v, float quantile) const {
    float noise = mean + quantile * sigma;
    if (integer != 0) noise = static_cast<float>(exact::cut_int(noise));
    const float sum = v + noise;
    if (clip != 0) return exact::limit(sum, 0.0f, most);
    if (integer != 0) return static_cast<float>(exact::cut_int(sum) & 255);
    return sum;
  }
};

/// Puts a number, or noise, in place of a rectangle.
struct Erase {
  double p;
  double scale[2];  // of the rectangle: its share of the area
  double ratio[2];  // logarithm of height / width
  uint32_t random;  // normal noise; else `value`
  float value[kMostChannels];

  ECHOBUF_MEMBERS(p, scale, ratio, random, value)

  struct Draw {
    int32_t top, left, height, width;
    Words words;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent& extent) const {
    constexpr int kAttempts = 10;
    Draw none{0, 0, 0, 0, words};
    if (!words.chance(p)) return none;
    const double area = static_cast<double>(extent.height) * extent.width;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      words.next_block();
      const double part = area * words.uniform(scale[0], scale[1]);
      const double shape = exact::exp(words.uniform(ratio[0], ratio[1]));
      const double h = exact::round_even(exact::square_root(part * shape));
      const double w = exact::round_even(exact::square_root(part / shape));
      const uint32_t down = words.word();
      const uint32_t right = words.word();
      if (h < 1 || h >= extent.height || w < 1 || w >= extent.width) continue;
      const auto rows = static_cast<int32_t>(h);
      const auto columns = static_cast<int32_t>(w);
      return {static_cast<int32_t>(
                  scaled(down, static_cast<uint32_t>(extent.height - rows + 1))),
              static_cast<int32_t>(
                  scaled(right, static_cast<uint32_t>(extent.width - columns + 1))),
              rows, columns, words};
    }
    return none;
  }
  ECHOBUF_HD float element(const Draw& d, float v, int channel, const Place& at) const {
    const bool within = at.y >= d.top && at.y < d.top + d.height && at.x >= d.left &&
                        at.x < d.left + d.width;
    if (!within) return v;
    if (random == 0) return value[channel];
    return normal(d.words.element(at.element(channel)).word[0]);
  }
};

/// Masks bands of rows (frequencies) and of columns (time) of a spectrogram.
struct Bands {
  static constexpr int kMost = 4;  // of each kind

  uint32_t rows;     // bands
  uint32_t columns;  // bands
  double tallest;    // of a band, in rows
  double widest;
  float value;

  ECHOBUF_MEMBERS(rows, columns, tallest, widest, value)

  struct Draw {
    int32_t begin[2 * kMost];
    int32_t end[2 * kMost];
  };

  ECHOBUF_HD Draw draw(Words words, const Extent& extent) const {
    Draw d{};
    for (uint32_t i = 0; i < rows + columns; ++i) {
      if (i > 0) words.next_block();
      const double size = i < rows ? words.rows(extent.height) : extent.width;
      const double wide =
          words.uniform() * exact::least(i < rows ? tallest : widest, size);
      const double begin = words.uniform() * (size - wide);
      d.begin[i] = static_cast<int32_t>(begin);
      if (i < rows) d.begin[i] -= words.first_row();
      d.end[i] = d.begin[i] + static_cast<int32_t>(wide);
    }
    return d;
  }
  ECHOBUF_HD float element(const Draw& d, float v, int, const Place& at) const {
    for (uint32_t i = 0; i < rows + columns; ++i) {
      const int32_t where = i < rows ? at.y : at.x;
      if (where >= d.begin[i] && where < d.end[i]) return value;
    }
    return v;
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_PIXELS_OPERATIONS(X) \
  X(normalize, Normalize)            \
  X(scale, Scale)                    \
  X(round, Round)                    \
  X(gain, Gain)                      \
  X(noise, Noise)                    \
  X(erase, Erase)                    \
  X(bands, Bands)
