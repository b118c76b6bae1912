// Stages pixel by pixel, as a thread of a kernel makes them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "echobuf/transform/stage_executor.hpp"
#include "echobuf/transform/statistic_steps.hpp"
#include "transform_cases.hpp"

namespace echobuf::transform::test {

inline std::uint64_t address_of(const Bytes& bytes) {
  return reinterpret_cast<std::uint64_t>(bytes.data());
}

/// A stage pixel by pixel.
class Pixels {
 public:
  explicit Pixels(const Stage& stage) : stage_(stage) {}

  Bytes make(const DrawNumber& number, const Bytes& own, const Bytes& partner) {
    Bytes target(static_cast<std::size_t>(stage_.target.size()));
    const HostOps ops(stage_, own_);
    const HostOps others(stage_, others_);
    ops.draw(number, false);
    others.draw(number, true);
    find_statistic(ops, own, 0);
    find_statistic(others, partner, 1);
    for (std::int32_t y = 0; y < stage_.target.extent.height; ++y)
      for (std::int32_t x = 0; x < stage_.target.extent.width; ++x) {
        if (stage_.raw != 0) {
          pull_raw(ops, address_of(own), address_of(target), y, x);
          continue;
        }
        float v[kMostChannels] = {};
        pull(ops, address_of(own), others, address_of(partner), y, x, v);
        for (std::int32_t c = 0; c < stage_.target.extent.channels; ++c) {
          const auto at = static_cast<std::uint64_t>(stage_.target.offset(y, x, c));
          store_number(stage_.target.type, address_of(target) + at, v[c]);
        }
      }
    return target;
  }

 private:
  /// `who`: 0, or 1 for the partner.
  void find_statistic(const HostOps& ops, const Bytes& image, int who) {
    if (stage_.statistic < 0) return;
    const Puller<HostOps> puller(ops, address_of(image));
    const Extent& extent = stage_.target.extent;
    std::int64_t sum = 0;
    std::vector<Range> ranges(kMostChannels, Range::none());
    std::vector<std::uint32_t> counts(kMostChannels * kBins);
    float v[kMostChannels] = {};
    for (std::int32_t y = 0; y < extent.height; ++y)
      for (std::int32_t x = 0; x < extent.width; ++x) {
        puller.moved(y, x, v);
        ops.visit(stage_.statistic, [&](const auto& op, const auto& draw) {
          if constexpr (requires { op.grey_before_contrast(draw, v); })
            sum += GreySum::term(op.grey_before_contrast(draw, v));
          if constexpr (requires { op.byte_of(0.0f); })
            for (std::uint32_t c = 0; c < kMostChannels; ++c)
              counts[c * kBins + op.byte_of(v[c])] += 1;
        });
        for (std::size_t c = 0; c < kMostChannels; ++c) ranges[c].add(v[c]);
      }
    const OpBlock& block = stage_.ops[stage_.statistic];
    if (statistic_of(stage_) == Statistic::kMean)
      ops.set_mean(stage_.statistic, GreySum::mean(sum, extent.pixels()));
    if (statistic_of(stage_) == Statistic::kRange)
      for (int c = 0; c < extent.channels; ++c)
        block.as<AutoContrast>().set(ops.drawn<AutoContrast::Draw>(stage_.statistic), c,
                                     ranges[static_cast<std::size_t>(c)]);
    if (statistic_of(stage_) == Statistic::kHistogram) {
      for (std::uint32_t at = 0; at < counts.size(); ++at)
        tables_[who][at] =
            equalized_by(&counts[at / kBins * kBins], at % kBins, extent.pixels());
      ops.drawn<Equalize::Draw>(stage_.statistic).table = tables_[who];
    }
  }

  const Stage& stage_;
  DrawBlock own_[kMostOps];
  DrawBlock others_[kMostOps];
  unsigned char tables_[2][kMostChannels * kBins];
};

/// Equal in every bit, but for which NaN it is.
inline void expect_equal(const Layout& layout, const Bytes& got, const Bytes& want,
                         const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  if (std::memcmp(got.data(), want.data(), got.size()) == 0) return;
  for (std::size_t at = 0; at < got.size(); at += layout.bytes) {
    if (std::memcmp(got.data() + at, want.data() + at, layout.bytes) == 0) continue;
    const float a = load_number(layout.type, address_of(got) + at);
    const float b = load_number(layout.type, address_of(want) + at);
    ASSERT_TRUE(a != a && b != b)
        << what << ": element " << at / layout.bytes << " is " << a << ", not " << b;
  }
}

inline DrawNumber some_draw(Dice& dice) {
  return {transform_key(7, 1), static_cast<std::uint64_t>(dice.from(0, 1 << 20)),
          static_cast<std::uint32_t>(dice.from(0, 3))};
}

inline Extent some_extent(Dice& dice) {
  const std::int32_t width = dice.one_in(8) ? dice.from(250, 300) : dice.from(1, 70);
  return {dice.from(1, 10), width, dice.of({1, 1, 2, 3, 3, 3, 4, 5})};
}

}  // namespace echobuf::transform::test
