// Arithmetic without libm, 16-bit floats, and the words that chance is made of.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "echobuf/transform/exact.hpp"
#include "echobuf/transform/mix.hpp"
#include "echobuf/transform/number.hpp"
#include "echobuf/transform/words.hpp"

namespace echobuf::transform {
namespace {

constexpr int kMany = 200'000;

double ulps(double got, double want) {
  const double step =
      std::nextafter(std::fabs(want), std::numeric_limits<double>::infinity()) -
      std::fabs(want);
  return std::fabs(got - want) / step;
}

TEST(TransformExact, LogarithmIsThatOfLibm) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-700, 700), near(0.5, 2.0);
  for (int i = 0; i < kMany; ++i) {
    const double far = std::exp(exponent(random));
    EXPECT_LE(ulps(exact::log(far), std::log(far)), 4) << far;
    // Next to 1 the result is small: its error is measured by that of 1.
    const double x = near(random);
    EXPECT_NEAR(exact::log(x), std::log(x), 4e-16) << x;
  }
  EXPECT_EQ(exact::log(1.0), 0.0);
}

TEST(TransformExact, ExponentialIsThatOfLibm) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> some(-700, 700), small(-1, 1);
  for (int i = 0; i < kMany; ++i)
    for (const double x : {some(random), small(random)})
      EXPECT_LE(ulps(exact::exp(x), std::exp(x)), 4) << x;
  EXPECT_EQ(exact::exp(0.0), 1.0);
}

TEST(TransformExact, TurnsAreThoseOfLibm) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> some(-1e3, 1e3);
  constexpr double kPerDegree = 0.017453292519943295;
  for (int i = 0; i < kMany; ++i) {
    const double degrees = some(random);
    const exact::Turn turn = exact::turn(degrees);
    // libm's argument is rounded: by up to half a unit of 17.
    EXPECT_NEAR(turn.sine, std::sin(degrees * kPerDegree), 4e-15) << degrees;
    EXPECT_NEAR(turn.cosine, std::cos(degrees * kPerDegree), 4e-15) << degrees;
  }
  for (int quarter = -8; quarter <= 8; ++quarter) {
    const exact::Turn turn = exact::turn(90.0 * quarter);
    constexpr double kSines[] = {0, 1, 0, -1};
    EXPECT_EQ(turn.sine, kSines[quarter & 3]) << quarter;
    EXPECT_EQ(turn.cosine, kSines[(quarter + 1) & 3]) << quarter;
  }
}

TEST(TransformExact, RoundsAndFloors) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> some(-1e6, 1e6);
  for (int i = 0; i < kMany; ++i) {
    const double x = some(random);
    const auto half = static_cast<double>(static_cast<int>(x)) + 0.5;
    for (const double v : {x, half, std::floor(x)}) {
      EXPECT_EQ(exact::round_even(v), std::nearbyint(v));
      EXPECT_EQ(exact::floor_int(v), static_cast<int>(std::floor(v)));
      const auto f = static_cast<float>(v);
      EXPECT_EQ(exact::round_even(f), std::nearbyint(f));
      EXPECT_EQ(exact::floor_int(f), static_cast<int>(std::floor(f)));
    }
  }
}

float scaled_by(std::uint32_t fraction, int exponent) {
  return std::ldexp(static_cast<float>(fraction), exponent);
}

TEST(TransformNumbers, HalvesThereAndBack) {
  for (std::uint32_t word = 0; word <= 0xFFFF; ++word) {
    const auto half = static_cast<std::uint16_t>(word);
    const std::uint32_t exponent = word >> 10 & 31, fraction = word & 1023;
    const float value = float_of_half(half);
    if (exponent == 31 && fraction != 0) {
      EXPECT_NE(value, value) << word;
      EXPECT_NE(float_of_half(half_of(value)), float_of_half(half_of(value)));
      continue;
    }
    float want = exponent == 0
                     ? scaled_by(fraction, -24)
                     : scaled_by(fraction | 1024, static_cast<int>(exponent) - 25);
    if (exponent == 31) want = std::numeric_limits<float>::infinity();
    if (word & 0x8000u) want = -want;
    EXPECT_EQ(exact::bits(value), exact::bits(want)) << word;
    EXPECT_EQ(half_of(value), half);
  }
}

/// To the nearest of 16-bit floats, found among the two neighbours of a value.
template <class Number>
void check_rounding(float value, std::uint16_t got) {
  const auto distance = [&](std::uint16_t word) {
    const auto at = static_cast<double>(static_cast<float>(Number{word}));
    return std::fabs(at - static_cast<double>(value));
  };
  const float back = Number{got};
  ASSERT_TRUE(std::isfinite(back)) << value;
  const auto up = static_cast<std::uint16_t>(got + 1);
  const auto down = static_cast<std::uint16_t>(got - 1);
  const bool first = (got & 0x7FFFu) == 0;
  const double here = distance(got);
  if (std::isfinite(static_cast<float>(Number{up}))) {
    EXPECT_LE(here, distance(up)) << value;
    if (here == distance(up)) {
      EXPECT_EQ(got & 1, 0) << value;
    }
  }
  if (!first) {
    EXPECT_LE(here, distance(down)) << value;
    if (here == distance(down)) {
      EXPECT_EQ(got & 1, 0) << value;
    }
  }
}

TEST(TransformNumbers, FloatsBecomeTheNearest) {
  std::mt19937 random(5);
  for (int i = 0; i < 2 * kMany; ++i) {
    const float value = exact::float_of(random());
    const float size = std::fabs(value);
    if (size < 65504.0f) check_rounding<Half>(value, half_of(value));
    if (size < 3e38f) check_rounding<Bfloat>(value, bfloat_of(value));
  }
  // Ties, of which there are few among random ones.
  for (std::uint32_t word = 0; word < 0x7BFF; ++word) {
    const auto half = static_cast<std::uint16_t>(word);
    const float between = 0.5f * (float_of_half(half) +
                                  float_of_half(static_cast<std::uint16_t>(word + 1)));
    EXPECT_EQ(half_of(between), half + (half & 1)) << word;
    EXPECT_EQ(half_of(-between), (half + (half & 1)) | 0x8000) << word;
  }
}

TEST(TransformNumbers, LargeOnesBecomeInfinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(half_of(65519.996f), 0x7BFF);
  EXPECT_EQ(half_of(65520.0f), 0x7C00);
  EXPECT_EQ(half_of(-1e30f), 0xFC00);
  EXPECT_EQ(half_of(kInf), 0x7C00);
  EXPECT_EQ(bfloat_of(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(bfloat_of(-kInf), 0xFF80);
  for (std::uint32_t word = 0; word <= 0xFFFF; ++word) {
    const auto bfloat = static_cast<std::uint16_t>(word);
    const float value = float_of_bfloat(bfloat);
    if (value == value) {
      EXPECT_EQ(bfloat_of(value), bfloat);
    } else {
      EXPECT_NE(float_of_bfloat(bfloat_of(value)), value);
    }
  }
}

TEST(TransformWords, BlocksAreThoseOfPhilox) {
  // Salmon et al. (2011), the known answers of Random123.
  EXPECT_EQ(philox4x32({{0, 0, 0, 0}}, {{0, 0}}).word[0], 0x6627E8D5u);
  const DrawNumber number{transform_key(0x123456789ABCDEFull, 3), 0x700000005ull, 9};
  const Words words(number, 0x8001);
  const Philox4x32Block want = philox4x32({{5, 7u | 0x80010000u, 9, 2}}, number.key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(words.block(2).word[i], want.word[i]);
  Words in_order(number, 0x8001);
  for (int i = 0; i < 9; ++i) in_order.word();
  EXPECT_EQ(in_order.word(), want.word[1]);
  EXPECT_EQ(words.element(6).word[0], words.block(0x80000006u).word[0]);
}

TEST(TransformWords, KeyIsOfSeedAndEpoch) {
  const Philox4x32Block want =
      philox4x32({{2, 1, 0, 0xB0000000u}}, philox_key(0x500000004ull));
  const Philox4x32Key key = transform_key(0x500000004ull, 0x100000002ull);
  EXPECT_EQ(key.word[0], want.word[0]);
  EXPECT_EQ(key.word[1], want.word[1]);
}

TEST(TransformWords, OperationsThatAlternateAreKeyedByUsesOfRecords) {
  constexpr std::uint32_t kOperation = 5;
  const auto number = [](std::uint64_t draw, std::uint64_t record, std::uint32_t echo) {
    DrawNumber use{transform_key(4, 2), draw, 1};
    use.record = record;
    use.echo = echo;
    return use;
  };
  const auto word_of = [&](std::uint32_t added, std::uint64_t draw,
                           std::uint64_t record, std::uint32_t echo) {
    return words_of(number(draw, record, echo), kOperation + added).word();
  };
  for (const std::uint64_t record : {0ull, 3ull, 0xFFFFFFFFull, 0x700000000ull})
    for (std::uint32_t pair = 0; pair < 3; ++pair) {
      const Philox4x32Block key = philox4x32(
          {{static_cast<std::uint32_t>(record),
            static_cast<std::uint32_t>(record >> 32) | 0xFFFF0000u, pair, 0}},
          transform_key(4, 2));
      const std::uint32_t want =
          philox4x32({{0, kOperation << 16, 1, 0}}, {{key.word[0], key.word[1]}})
              .word[0];
      const std::uint32_t echo = 2 * pair;
      EXPECT_EQ(word_of(kPairOperation, 7, record, echo), want);
      EXPECT_EQ(word_of(kPairOperation, 8, record, echo + 1), want);
      EXPECT_EQ(word_of(kRecordOperation, 8, record, echo),
                word_of(kRecordOperation, 9, record, 1));
      // Without alternation neither record nor echo counts.
      EXPECT_EQ(word_of(0, 7, record, echo), word_of(0, 7, 0, 0));
    }
  EXPECT_EQ(word_of(kRecordOperation, 0, 6, 5), word_of(kPairOperation, 0, 6, 0));
}

TEST(TransformWords, EverySecondUseMakesTheOppositeChoice) {
  for (std::uint64_t record = 0; record < 500; ++record) {
    DrawNumber first{transform_key(1, 0), 3, 0};
    first.record = record;
    DrawNumber second = first;
    second.echo = 1;
    for (const std::uint32_t operation : {kPairOperation + 2, kRecordOperation + 2}) {
      Words a = words_of(first, operation);
      Words b = words_of(second, operation);
      EXPECT_NE(a.either(0.5), b.either(0.5));
      EXPECT_NEAR(a.antithetic(-1.0, 3.0) + b.antithetic(-1.0, 3.0), 2.0, 1e-8);
      const std::uint32_t word = a.word();
      ASSERT_EQ(b.word(), word);
      for (const std::uint32_t n : {1u, 2u, 7u, 0xFFFFFFFFu})
        EXPECT_EQ(a.place(word, n) + b.place(word, n), n - 1);
    }
    // An operation that does not alternate takes the word as it is.
    Words plain(second, 2);
    Words same(second, 2);
    EXPECT_EQ(plain.antithetic(), same.uniform());
    EXPECT_EQ(plain.place(9, 5), scaled(9, 5));
  }
}

TEST(TransformWords, WeightsAreBetween0And1) {
  for (const double alpha : {1e-6, 0.01, 0.2, 1.0, 1.0000001, 1.5, 8.0, 1e6})
    for (std::uint32_t draw = 0; draw < 2'000; ++draw) {
      const DrawNumber number{transform_key(1, 0), draw, 0};
      Words words(number, 0);
      const double weight = symmetric_beta(words, alpha);
      ASSERT_TRUE(weight >= 0.0 && weight <= 1.0) << alpha << " " << weight;
    }
}

TEST(TransformWords, NormalsAreSymmetricAndOrdered) {
  float last = -std::numeric_limits<float>::infinity();
  for (std::uint64_t word = 0; word < (1ull << 32); word += 65'537) {
    const float value = normal(static_cast<std::uint32_t>(word));
    EXPECT_GT(value, last);
    EXPECT_NEAR(normal(~static_cast<std::uint32_t>(word)), -value, 2e-6);
    last = value;
  }
  EXPECT_NEAR(normal(0xFFFFFFFFu), 6.338, 1e-3);
}

}  // namespace
}  // namespace echobuf::transform
