#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/levels.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/statistic.hpp"
#include "echobuf/transform/words.hpp"

// Operations that give numbers other values, the same for equal numbers of a channel,
// as torchvision does it: each with a probability, for which the first word is taken.
// NaN stays NaN but in Equalize.

namespace echobuf::transform {

/// Mirrors numbers in 0 ... `white`.
struct Invert {
  double p;
  float white;

  ECHOBUF_MEMBERS(p, white)

  struct Draw {
    uint32_t on;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    return {words.chance(p) ? 1u : 0u};
  }
  ECHOBUF_HD float element(const Draw& d, float v, int, const Place&) const {
    return d.on != 0 ? white - v : v;
  }
};

/// Mirrors numbers from a threshold on.
struct Solarize {
  double p;
  float white;
  Levels thresholds;

  ECHOBUF_MEMBERS(p, white, thresholds)

  struct Draw {
    uint32_t on;
    float threshold;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    const bool on = words.chance(p);
    return {on ? 1u : 0u, thresholds.pick(words)};
  }
  ECHOBUF_HD float element(const Draw& d, float v, int, const Place&) const {
    return d.on != 0 && v >= d.threshold ? white - v : v;
  }
};

/// Keeps the first bits of numbers; of floats, as many steps in 0 ... 1 as these have.
struct Posterize {
  double p;
  uint32_t integer;  // 8 bits
  Levels bits;       // 0 ... 8

  ECHOBUF_MEMBERS(p, integer, bits)

  struct Draw {
    uint32_t on;
    uint32_t kept;  // bits
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    const bool on = words.chance(p);
    return {on ? 1u : 0u, static_cast<uint32_t>(bits.pick(words))};
  }
  ECHOBUF_HD static uint32_t mask(const Draw& d) { return 0xFF00u >> d.kept & 0xFFu; }
  ECHOBUF_HD float element(const Draw& d, float v, int, const Place&) const {
    if (integer != 0) {
      const uint32_t kept = d.on != 0 ? mask(d) : 0xFFu;
      return static_cast<float>(static_cast<int32_t>(v) & static_cast<int32_t>(kept));
    }
    const auto steps = static_cast<float>(1u << d.kept);
    const float scaled = exact::least(exact::most(v * steps, 0.0f), steps);
    const auto below = static_cast<float>(exact::cut_int(scaled));
    const float step = exact::least(below, steps - 1.0f) * (1.0f / steps);
    return d.on != 0 && v == v ? step : v;
  }
};

/// Stretches each channel to 0 ... `white`. NaN does not count.
struct AutoContrast {
  static constexpr Statistic kStatistic = Statistic::kRange;
  static constexpr int kChannels = 3;  // at most

  double p;
  float white;
  uint32_t integer;  // results are cut to whole numbers

  ECHOBUF_MEMBERS(p, white, integer)

  struct Draw {
    uint32_t on;
    float least[kChannels];
    float scale[kChannels];
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    return {words.chance(p) ? 1u : 0u, {}, {}};
  }
  ECHOBUF_HD static bool looks(const Draw& d) { return d.on != 0; }
  /// Sets what the range of a channel makes of its numbers.
  ECHOBUF_HD void set(Draw& d, int channel, const Range& range) const {
    const bool spread = range.least < range.most;
    // A least of -0 or 0, whichever comes first, counts as 0.
    d.least[channel] = spread ? range.least + 0.0f : 0.0f;
    d.scale[channel] = spread ? (range.most - range.least) * (1.0f / white) : 1.0f;
  }
  ECHOBUF_HD float element(const Draw& d, float v, int channel, const Place&) const {
    // No index is computed in a kernel, where the loop over channels is unrolled.
    const float stretched = (v - d.least[channel]) / d.scale[channel];
    const float within = exact::least(exact::most(stretched, 0.0f), white);
    const float result =
        integer != 0 ? static_cast<float>(exact::cut_int(within)) : within;
    return d.on != 0 ? result : v;
  }
};

/// Makes the histogram of each channel as even as the order of numbers allows, as
/// Pillow does. Floats become 8 bits by it, NaN 0.
struct Equalize {
  static constexpr Statistic kStatistic = Statistic::kHistogram;

  double p;
  uint32_t integer;

  ECHOBUF_MEMBERS(p, integer)

  struct Draw {
    uint32_t on;
    const unsigned char* table;  // 256 numbers of each channel
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    return {words.chance(p) ? 1u : 0u, nullptr};
  }
  ECHOBUF_HD static bool looks(const Draw& d) { return d.on != 0; }
  ECHOBUF_HD uint32_t byte_of(float v) const {
    if (integer != 0) return static_cast<uint32_t>(static_cast<int32_t>(v));
    const float scaled = exact::least(exact::most(v * 255.999f, 0.0f), 255.0f);
    return static_cast<uint32_t>(exact::cut_int(scaled));
  }
  ECHOBUF_HD float element(const Draw& d, float v, int channel, const Place&) const {
    if (d.on == 0) return v;
    const auto made =
        static_cast<float>(d.table[static_cast<uint32_t>(channel) * 256 + byte_of(v)]);
    return integer != 0 ? made : made * (1.0f / 255.0f);
  }
};

/// Makes pixels grey: of three channels one or three, of one three. Other channels than
/// before are made whatever chance says.
struct Grey {
  double p;
  uint32_t from;  // channels
  uint32_t to;
  uint32_t integer;

  ECHOBUF_MEMBERS(p, from, to, integer)

  struct Draw {
    uint32_t on;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    return {words.chance(p) ? 1u : 0u};
  }
  /// The sums in double are rounded at once, as fused multiply-adds round them.
  ECHOBUF_HD static float sum(float red, float green, float blue) {
    float made = red * 0.2989f;
    made = static_cast<float>(static_cast<double>(made) +
                              static_cast<double>(green) * double{0.587f});
    return static_cast<float>(static_cast<double>(made) +
                              static_cast<double>(blue) * double{0.114f});
  }
  ECHOBUF_HD float grey(float red, float green, float blue) const {
    const float made = sum(red, green, blue);
    return integer != 0 ? static_cast<float>(exact::cut_int(made)) : made;
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v, const Place&) const {
    if (d.on == 0 && from == to) return;
    const float made = from == 3 ? grey(v[0], v[1], v[2]) : v[0];
    v[0] = made;
    if (to == 3) v[1] = v[2] = made;
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_TONE_OPERATIONS(X) \
  X(invert, Invert)                \
  X(solarize, Solarize)            \
  X(posterize, Posterize)          \
  X(auto_contrast, AutoContrast)   \
  X(equalize, Equalize)            \
  X(grey, Grey)
