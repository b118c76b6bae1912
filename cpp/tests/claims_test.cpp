#include "echobuf/store/claims.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "claims_support.hpp"
#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace {

using echobuf::Claims;
using echobuf::Ring;
using echobuf::test::claim;
using echobuf::test::Ids;
using echobuf::test::note_ends;
using Claim = Claims::Claim;

TEST(Claims, HaveRoomForHalfOfARingThatIsFree) {
  for (const std::uint64_t units : {1, 2, 3, 8, 31}) {
    const std::uint64_t largest = (units + 1) / 2;
    for (std::uint64_t at = 0; at < units; ++at) {  // where the payload has come to
      Ring ring({.capacity = units + 1, .units = units});
      const Ids ones(at, 1);
      const Claim before = claim(ring, ones);
      ASSERT_EQ(before.count, at);
      note_ends(ring, before, ones);
      if (at > 0) ring.commit(0, at);
      ASSERT_EQ(ring.committed(), at);
      ring.release(at);
      ASSERT_TRUE(ring.claims().has_room(largest));
      ASSERT_EQ(claim(ring, {largest}).count, 1u);
    }
  }
}

TEST(Claims, HaveRoomForTheLargestBesideAllThatMayStay) {
  constexpr std::uint64_t kRecords = 400;
  std::mt19937_64 random(3);
  for (const std::uint64_t most : {1, 2, 7, 30})
    for (const std::uint64_t stay : {1, 5, 60, 200}) {
      const std::uint64_t wrap_from = stay + most, units = wrap_from + most;
      Ring ring({.capacity = kRecords, .units = units, .wrap_from = wrap_from});
      std::deque<std::uint64_t> live;
      std::uint64_t all = 0, wraps = 0, early = 0, end = 0;
      for (int step = 0; step < 5000; ++step) {
        const bool small = random() % 3 > 0;
        const Ids sizes = {random() % ((small ? (most + 3) / 4 : most) + 1)};
        while (all > stay || live.size() == kRecords) {  // no more than must leave
          ring.release(ring.released() + 1);
          all -= live.front();
          live.pop_front();
        }
        ASSERT_EQ(ring.claims().used(), all);
        ASSERT_TRUE(ring.claims().has_room(most));
        const Claim got = claim(ring, sizes);
        ASSERT_EQ(got.count, 1u);
        const std::uint64_t start = note_ends(ring, got, sizes)[0] % units;
        ASSERT_LT(start, wrap_from);
        wraps += start < end;
        early += start < end && end + sizes[0] <= units;
        end = start + sizes[0];
        ring.commit(got.first, 1);
        ASSERT_EQ(ring.committed(), got.first + 1);
        live.push_back(sizes[0]);
        all += sizes[0];
      }
      EXPECT_GT(wraps, 5u);
      EXPECT_GT(early, 0u) << "with room behind";
    }
}

TEST(Claims, GoOnBeyondTheDigitsOfTheirWord) {
  // Positions past 2^24, places past 2^30.
  constexpr std::uint64_t kRecords = 1 << 10, kUnits = (1 << 20) + 3, kRun = 64;
  Ring ring({.capacity = kRecords, .units = kUnits});
  const std::uint64_t term = ring.term();
  std::uint64_t position = 0, place = 0;
  const auto size_of = [&](std::uint64_t i) { return (position + i) % 131; };
  while (position < (std::uint64_t{1} << 24) + 5 * kRecords) {
    std::uint64_t sizes[kRun];
    for (std::uint64_t i = 0; i < kRun; ++i) sizes[i] = size_of(i);
    const Claim got = ring.claim(kRun, term, sizes);
    ASSERT_EQ(got.first, position);
    ASSERT_EQ(got.count, kRun);
    ASSERT_EQ(got.place, place);
    for (std::uint64_t i = 0; i < kRun; ++i) ring.claims().take(place, size_of(i));
    ring.claims().end_at(position + kRun - 1, place);  // the only one that is released
    ring.commit(position, kRun);
    position += kRun;
    ASSERT_EQ(ring.tail(), position);
    if (position % (4 * kRun) == 0) {
      ASSERT_EQ(ring.committed(), position);
      ring.release(position);
    }
  }
  EXPECT_GT(place, std::uint64_t{1} << 30);
}

TEST(Claims, HoldAsManyRecordsAsTheWordTells) {
  // A full ring: the position is as far from the limit as it can be, and then none.
  constexpr std::uint64_t kRecords = Claims::kMostRecords;
  Claims claims({.capacity = kRecords, .units = Claims::kMostUnits});
  constexpr std::uint64_t kRun = 1 << 16;
  const Ids sizes(kRun, 7);
  std::uint64_t place = 0;
  for (std::uint64_t lap = 0; lap < 2; ++lap) {
    std::uint64_t position = lap * kRecords;
    while (position < (lap + 1) * kRecords) {
      const Claim got = claims.claim(kRun, claims.term(), sizes.data());
      ASSERT_EQ(got.first, position);
      ASSERT_EQ(got.place, place);
      ASSERT_GT(got.count, 0u);
      for (std::uint64_t i = 0; i < got.count; ++i) claims.take(place, 7);
      position += got.count;
      claims.end_at(position - 1, place);
    }
    ASSERT_EQ(claims.position(), position);
    ASSERT_FALSE(claims.has_room(0));
    claims.release(position);
  }
}

TEST(Claims, RefuseWhenClosedAndKnowTheirTerm) {
  Ring ring({.capacity = 4, .units = 10});
  const std::uint64_t old = ring.term();
  const Ids sizes = {3, 0};
  const Claim before = claim(ring, sizes);
  ring.close();
  EXPECT_TRUE(ring.closed());
  EXPECT_TRUE(claim(ring, {1}).closed);
  EXPECT_TRUE(claim(ring, {}).closed);
  note_ends(ring, before, sizes);
  ring.commit(before.first, before.count);
  EXPECT_EQ(ring.committed(), 2u) << "what was claimed before still comes";
  ring.release(2);
  ring.reopen();
  EXPECT_FALSE(ring.closed());
  EXPECT_NE(ring.term(), old);
  const std::uint64_t one = 1;
  EXPECT_TRUE(ring.claim(1, old, &one).closed);
  const Claim got = claim(ring, {7, 0, 0, 0});
  EXPECT_EQ(got.first, 2u) << "positions go on";
  EXPECT_EQ(got.place, 3u) << "and places";
  EXPECT_EQ(got.count, 4u);
}

TEST(Claims, GoThroughAllTermsWithoutTouchingPositionsAndPlaces) {
  Ring ring({.capacity = 2, .units = 9});
  note_ends(ring, claim(ring, {5}), {5});
  ring.commit(0, 1);
  ASSERT_EQ(ring.committed(), 1u);
  std::uint64_t last = ring.term();
  for (int i = 0; i < 3 * 512 + 3; ++i) {
    ring.close();
    ASSERT_TRUE(ring.closed());
    ring.reopen();
    ASSERT_FALSE(ring.closed());
    ASSERT_EQ(ring.tail(), 1u);
    ASSERT_NE(ring.term(), last) << "terms do not come again as the word's digits do";
    last = ring.term();
  }
  EXPECT_EQ(claim(ring, {4}).place, 5u);
}

TEST(Claims, PassOverPositionsOfAClosedRing) {
  constexpr std::uint64_t kRecords = 6, kUnits = 20;
  std::mt19937_64 random(2);
  Ring ring({.capacity = kRecords, .units = kUnits});
  std::uint64_t tail = 0;
  for (int lap = 0; lap < 300; ++lap) {
    const Ids sizes(random() % (kRecords + 1), 3);
    const Claim got = claim(ring, sizes);
    ASSERT_EQ(got.count, sizes.size());
    note_ends(ring, got, sizes);
    if (got.count > 0) ring.commit(got.first, got.count);
    tail += got.count;
    ring.close();
    ring.settle(tail);
    const std::uint64_t count = random() % kRecords;
    if (count > 0) ring.skip(count);
    tail += count;
    ASSERT_EQ(ring.tail(), tail);
    ring.settle(tail);
    ring.release(tail);
    ring.reopen();
    ASSERT_EQ(ring.tail(), tail);
    ASSERT_TRUE(ring.claims().has_room(kUnits / 2));
  }
}

}  // namespace
