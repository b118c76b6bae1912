// Rows that are changed in vectors: hues, normal numbers and borders are those of
// single pixels, bit for bit, at every level of vector instructions.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "echobuf/transform/color_rows.hpp"
#include "echobuf/transform/pixel_rows.hpp"
#include "echobuf/transform/sampled_image.hpp"
#include "transform_cases.hpp"

namespace echobuf::transform {
namespace {

using test::Dice;

/// Runs `check` as on a CPU of each level that this one has.
template <class Check>
void at_each_level(Check&& check) {
  for (const CpuLevel level :
       {CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level > detect_cpu_level()) break;
    echobuf::detail::level_in_use() = level;
    check();
  }
  echobuf::detail::level_in_use() = detect_cpu_level();
}

/// Equal in every bit, but for which NaN it is.
bool are_equal(float a, float b) {
  return exact::bits(a) == exact::bits(b) || (a != a && b != b);
}

RowBlock copy_of(const RowBlock& rows, const Extent& extent) {
  RowBlock copy(extent.width, extent.channels);
  for (std::int32_t c = 0; c < extent.channels; ++c)
    std::copy_n(rows[c], extent.width, copy[c]);
  return copy;
}

/// `change_row` against the operation number by number, or pixel by pixel.
template <class Op>
void check_rows(const Op& op, const typename Op::Draw& draw, const RowBlock& rows,
                const Place& first, std::uint32_t seed) {
  const Extent& extent = first.extent;
  RowBlock want = copy_of(rows, extent);
  Place at = first;
  for (at.x = 0; at.x < extent.width; ++at.x) {
    float v[kMostChannels] = {};
    for (std::int32_t c = 0; c < extent.channels; ++c) v[c] = want[c][at.x];
    if constexpr (ElementOp<Op>)
      for (std::int32_t c = 0; c < extent.channels; ++c)
        v[c] = op.element(draw, v[c], c, at);
    else
      op.pixel(draw, v, at);
    for (std::int32_t c = 0; c < extent.channels; ++c) want[c][at.x] = v[c];
  }
  at_each_level([&] {
    const RowBlock got = copy_of(rows, extent);
    change_row(op, draw, got.rows(), first);
    for (std::int32_t c = 0; c < extent.channels; ++c)
      for (std::int32_t x = 0; x < extent.width; ++x)
        ASSERT_TRUE(are_equal(got[c][x], want[c][x]))
            << "case " << seed << ", level " << static_cast<int>(cpu_level())
            << ", channel " << c << ", column " << x << ": " << got[c][x] << ", not "
            << want[c][x] << ", of " << rows[c][x];
  });
}

Words some_words(Dice& dice) {
  const auto draw = static_cast<std::uint64_t>(dice.from(0, 1 << 30));
  const auto row = static_cast<std::uint32_t>(dice.from(0, 3));
  return {
      {transform_key(static_cast<std::uint64_t>(dice.from(0, 99)), 3), draw << 8, row},
      static_cast<std::uint32_t>(dice.from(0, 40))};
}

TEST(TransformVectors, HuesOfEverySectorComeBackAlike) {
  for (const bool whole : {false, true}) {
    const float most = whole ? 255.0f : 1.0f;
    const Extent extent{1, 216, 3};
    RowBlock rows(extent.width, 3);  // six levels of each colour
    for (std::int32_t x = 0; x < extent.width; ++x) {
      const std::int32_t levels[] = {x % 6, x / 6 % 6, x / 36};
      for (std::int32_t c = 0; c < 3; ++c)
        rows[c][x] = static_cast<float>(levels[c]) / 5.0f * most;
    }
    for (std::int32_t turn = -32; turn <= 32; ++turn) {
      Jitter op{extent, {}, {}, 1u << Jitter::kHue, whole ? 1u : 0u, most};
      Jitter::Draw draw{};
      draw.order = Jitter::kHue | 1u << 4 | 2u << 8;
      draw.factor[Jitter::kHue] = static_cast<float>(turn) / 64.0f;
      check_rows(op, draw, rows, {0, 0, extent}, static_cast<std::uint32_t>(turn + 32));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TransformVectors, NormalNumbersOfARowAreThoseOfItsWords) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Dice dice(seed);
    const Words words = some_words(dice);
    const auto step = static_cast<std::uint32_t>(dice.from(1, 16));
    const std::int32_t count = dice.from(0, 700);
    // Numbers of elements wrap round, as those of single ones do.
    const std::uint32_t first =
        dice.one_in(4) ? 0u - 300 : static_cast<std::uint32_t>(dice.from(0, 1 << 30));
    at_each_level([&] {
      std::int32_t done = 0;
      for_normals(words, first, step, count,
                  [&](std::int32_t begin, std::int32_t some, const float* quantiles) {
                    ASSERT_EQ(begin, done);
                    for (std::int32_t i = 0; i < some; ++i) {
                      const auto at = static_cast<std::uint32_t>(begin + i);
                      const std::uint32_t word =
                          words.element(first + at * step).word[0];
                      ASSERT_TRUE(are_equal(quantiles[i], normal(word)))
                          << "case " << seed << ", element " << at;
                    }
                    done += some;
                  });
      ASSERT_EQ(done, count) << "case " << seed;
    });
    if (HasFatalFailure()) return;
  }
}

TEST(TransformVectors, QuantilesGrowWhereTheirPartsMeet) {
  constexpr std::uint32_t kFirst = detail::kFirstCentral;
  constexpr std::uint32_t kPast = kFirst + detail::kCentralWords;
  for (const std::uint32_t begin : {0u, kFirst - 64, kPast - 64, 0u - 129})
    for (std::uint32_t word = begin; word < begin + 128; ++word) {
      EXPECT_LE(normal(word), normal(word + 1)) << word;
      EXPECT_EQ(normal(word), -normal(0u - 1 - word)) << word;
    }
  EXPECT_NEAR(normal(0), -6.33796f, 1e-4f);
  EXPECT_NEAR(normal(kFirst), -1.43953f, 1e-4f);
}

TEST(TransformVectors, WhatIsOutsideCountsNothingUnlessItIsCovered) {
  const Extent extent{3, 40, 1};
  const float fill[] = {7.0f};
  for (const bool bytes : {false, true})
    at_each_level([&] {
      SampledImage image(extent, bytes, extent.width);
      for (std::int32_t y = 0; y < extent.height; ++y) {
        const ByteRows ones(extent.width, 3);
        std::fill_n(ones[0], extent.width, static_cast<unsigned char>(1));
        if (bytes)
          image.set_row(y, ones.rows());
        else
          std::fill_n(image.row_of(y, 0), extent.width, 1.0f);
      }
      std::vector<float> x(40), y(40, -0.75f);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      y[39] = -9.0f;  // far away, where the fill is
      RowBlock got(extent.width, 1);
      for (const bool covered : {true, false}) {
        image.bilinear({x.data(), y.data(), extent.width}, fill, covered, got.rows());
        for (std::int32_t i = 0; i < 39; ++i)  // a quarter of the pixel below
          ASSERT_EQ(got[0][i], covered ? (0.25f - 7.0f) * 0.25f + 7.0f : 0.25f);
        ASSERT_EQ(got[0][39], 7.0f);
      }
    });
}

TEST(TransformVectors, ImagesWhosePixelsHaveNoNumbersAreNotTaken) {
  EXPECT_TRUE(SampledImage::takes({4000, 6000, 3}));
  EXPECT_FALSE(SampledImage::takes({1, 1 << 30, 1}));
  EXPECT_FALSE(SampledImage::takes({40000, 40000, 3}));
}

}  // namespace
}  // namespace echobuf::transform
