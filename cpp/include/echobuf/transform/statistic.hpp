#pragma once

#include "echobuf/transform/exact.hpp"
#include "echobuf/transform/image.hpp"

// What an operation asks of the whole image that it changes, before it changes a pixel.
// Parts of an image are looked at apart, in any order, and put together: the result has
// the same bits.

namespace echobuf::transform {

enum class Statistic : uint32_t {
  kNone,
  kMean,       // of the grey image: a GreySum
  kRange,      // of each channel: a Range
  kHistogram,  // of each channel: counts of 256 bytes
};

/// A sum whose terms may come in any order: numbers of up to 256 as multiples of 2^-30.
/// Of fewer than 2^25 terms. NaN counts as 0.
struct GreySum {
  static constexpr double kUnit = 1073741824.0;

  ECHOBUF_HD static int64_t term(float grey) {
    const float v = exact::least(exact::most(grey, -256.0f), 256.0f);
    return static_cast<int64_t>(v == v ? static_cast<double>(v) * kUnit : 0.0);
  }
  ECHOBUF_HD static float mean(int64_t sum, int64_t pixels) {
    return static_cast<float>(static_cast<double>(sum) /
                              (static_cast<double>(pixels) * kUnit));
  }
};

/// The least and the most of numbers; NaN does not count.
struct Range {
  float least;
  float most;

  ECHOBUF_HD static Range none() {
    return {exact::float_of(0x7F800000u), exact::float_of(0xFF800000u)};
  }
  ECHOBUF_HD void add(float v) {
    least = v < least ? v : least;
    most = v > most ? v : most;
  }
  ECHOBUF_HD void add(const Range& other) {
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
  }
};

inline constexpr uint32_t kBins = 256;

/// Bytes of the statistic of a part of an image; a multiple of eight.
ECHOBUF_HD constexpr uint64_t statistic_bytes(Statistic kind, int32_t channels) {
  const auto each = static_cast<uint64_t>(channels);
  switch (kind) {
    case Statistic::kMean:
      return sizeof(int64_t);
    case Statistic::kRange:
      return each * sizeof(Range);
    case Statistic::kHistogram:
      return each * kBins * sizeof(uint32_t);
    case Statistic::kNone:
      break;
  }
  return 0;
}

/// The pixels for which equalising goes up by one; 0: it leaves the channel, of
/// `pixels` pixels, as it is. `last`: pixels of the largest byte that there is.
ECHOBUF_HD inline uint32_t equalizing_step(int64_t pixels, uint32_t last) {
  return (static_cast<uint32_t>(pixels) - last) / 255;
}

/// The byte that equalising makes of `byte`. `before`: pixels of smaller ones. As
/// Pillow's ImageOps.equalize.
ECHOBUF_HD inline unsigned char equalized(uint32_t byte, uint32_t before,
                                          uint32_t step) {
  if (step == 0) return static_cast<unsigned char>(byte);
  return static_cast<unsigned char>(exact::least((before + step / 2) / step, 255u));
}

}  // namespace echobuf::transform
