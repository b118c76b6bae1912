#include "echobuf/schedule/thinning.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "echobuf/draw/pass_selector.hpp"
#include "echobuf/store/losses.hpp"

namespace {

using namespace echobuf;  // NOLINT(google-build-using-namespace)

using Marks = std::vector<std::uint8_t>;

constexpr std::uint8_t kStays = SavedSelection::kDrawn;
constexpr std::uint8_t kCounts = kStays | SavedSelection::kWeighted;

Marks marks(const Thinning& coins, std::uint64_t first,
            const std::vector<float>& losses, double mean) {
  Marks found(losses.size(), 77);
  coins.mark(first, losses.data(), losses.size(), mean, found.data());
  return found;
}

TEST(Thinning, LeavesOutItsShareOfLowLossesAlone) {
  std::vector<float> losses(100000);
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = i % 2 == 0 ? 0.0F : 1.0F;
  for (const double thin : {0.0, 0.25, 0.5, 0.9}) {
    const Marks found = marks(Thinning(1, 2, 3, thin), 5, losses, 0.5);
    double out = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i % 2 == 1) {
        EXPECT_EQ(found[i], kStays);
        continue;
      }
      EXPECT_TRUE(found[i] == 0 || found[i] == kCounts);
      out += found[i] == 0 ? 1 : 0;
    }
    const double half = static_cast<double>(losses.size()) / 2;
    const double spread = std::sqrt(half * thin * (1 - thin));
    EXPECT_NEAR(out, half * thin, 4.5 * spread + 1e-9) << thin;
  }
}

TEST(Thinning, IsTheSameWhereverARunBegins) {
  // Across the border of 32 bits, too.
  const std::uint64_t first = (std::uint64_t{1} << 32) - 40;
  const std::vector<float> losses(100, 0.0F);
  const Thinning coins(7, 8, 9, 0.5);
  const Marks whole = marks(coins, first, losses, 1.0);
  for (std::size_t at = 0; at < losses.size(); ++at)
    EXPECT_EQ(marks(coins, first + at, {0.0F}, 1.0).front(), whole[at]);
}

TEST(Thinning, DependsOnSeedEpochAndPass) {
  const std::vector<float> losses(64, 0.0F);
  const auto of = [&](std::uint64_t seed, std::uint64_t epoch, std::uint64_t pass) {
    return marks(Thinning(seed, epoch, pass, 0.5), 0, losses, 1.0);
  };
  EXPECT_EQ(of(1, 2, 3), of(1, 2, 3));
  EXPECT_NE(of(1, 2, 3), of(2, 2, 3));
  EXPECT_NE(of(1, 2, 3), of(1, 3, 3));
  EXPECT_NE(of(1, 2, 3), of(1, 2, 4));
}

TEST(Thinning, ComparesWithTheMeanItself) {
  // The mean is no float: 1 is below it, and the next float is not.
  const float next = std::nextafter(1.0F, 2.0F);
  const double mean = (1.0 + static_cast<double>(next)) / 2;
  const Marks found =
      marks(Thinning(1, 2, 3, 0.0), 0,
            {1.0F, next, Losses::kNone, -1e30F, std::numeric_limits<float>::infinity()},
            mean);
  EXPECT_EQ(found, (Marks{kCounts, kStays, kStays, kCounts, kStays}));
  EXPECT_EQ(marks(Thinning(1, 2, 3, 0.0), 0, {1.0F, next}, 1.0),
            (Marks{kStays, kStays}));
}

TEST(LossSum, IsTheSameInWhateverRuns) {
  std::mt19937 random(3);
  std::vector<float> losses(1001);
  for (float& loss : losses) loss = static_cast<float>(random() % 1000) / 7;
  for (std::size_t i = 0; i < losses.size(); i += 5) losses[i] = Losses::kNone;
  LossSum whole;
  whole.add(losses.data(), losses.size());
  for (const std::size_t cut : {0, 1, 500, 1001}) {
    LossSum parts;
    parts.add(losses.data(), cut);
    parts.add(losses.data() + cut, losses.size() - cut);
    EXPECT_EQ(parts.mean(), whole.mean());
  }
}

/// The losses of a window, as a pass sees them; -1 where there is none.
std::vector<float> seen(const Losses& losses, std::uint64_t first,
                        std::uint64_t count) {
  std::vector<float> found;
  losses.look(
      first, count,
      [&](const float* one, std::uint64_t run, const float* other, std::uint64_t rest) {
        found.assign(one, one + run);
        found.insert(found.end(), other, other + rest);
      });
  for (float& loss : found)
    if (std::isnan(loss)) loss = -1;
  return found;
}

TEST(Losses, AreKnownOnceTheyAreTaken) {
  Losses losses(6);
  EXPECT_TRUE(seen(losses, 0, 4).empty()) << "nothing was reported";
  const std::int64_t records[] = {1, 3, 1};
  const float reported[] = {0.5F, 2.0F, 0.25F};
  losses.report(records, reported, 3, 99, false);
  EXPECT_TRUE(seen(losses, 0, 4).empty());
  losses.take();
  EXPECT_EQ(seen(losses, 0, 4), (std::vector<float>{-1, 0.25F, -1, 2}));
  losses.leave(2);
  EXPECT_EQ(seen(losses, 2, 6), (std::vector<float>{-1, 2, -1, -1, -1, -1}))
      << "records have left, and others are in their slots";
  losses.leave(100);
  EXPECT_EQ(seen(losses, 100, 6), std::vector<float>(6, -1));
}

TEST(Losses, OfOthersThanThoseKeptArePassedOver) {
  Losses losses(4);
  losses.leave(8);
  const std::int64_t records[] = {7, 8, 12, 9, 10, 11};
  const float reported[] = {1,
                            2,
                            3,
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(),
                            4};
  losses.report(records, reported, 6, 11, false);  // 11 has not been put
  losses.take();
  EXPECT_EQ(seen(losses, 8, 4), (std::vector<float>{2, -1, -1, -1}));
}

TEST(Losses, OfNeighboursCanCountAsOne) {
  Losses losses(4);
  const std::int64_t records[] = {0, 0, 0, 1};
  const float reported[] = {1, 2, 6, 5};
  losses.report(records, reported, 4, 99, true);
  losses.take();
  EXPECT_EQ(seen(losses, 0, 2), (std::vector<float>{3, 5}));
}

TEST(Losses, AreSavedAndLoaded) {
  Losses first(5), second(5);
  EXPECT_TRUE(first.save(0, 3).empty());
  const std::int64_t records[] = {2, 4};
  const float reported[] = {1, 2};
  first.report(records, reported, 2, 99, false);
  const std::vector<float> saved = first.save(1, 4);
  ASSERT_EQ(saved.size(), 4u);
  second.load(1, saved);
  EXPECT_EQ(seen(second, 1, 4), (std::vector<float>{-1, 1, -1, 2}));
  second.load(1, std::vector<float>(9, 3.0F));  // more than there is room for
  EXPECT_EQ(seen(second, 1, 5), std::vector<float>(5, 3.0F));
  second.clear(7);
  EXPECT_TRUE(seen(second, 7, 4).empty());
}

}  // namespace
