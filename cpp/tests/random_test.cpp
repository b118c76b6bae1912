#include "echobuf/schedule/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace {

using echobuf::philox4x32;
using echobuf::Philox4x32Block;
using echobuf::Philox4x32Key;
using echobuf::philox_key;

struct KnownAnswer {
  Philox4x32Block counter;
  Philox4x32Key key;
  Philox4x32Block result;
};

// Random123, kat_vectors, philox4x32 with 10 rounds: zeros, ones, digits of pi.
constexpr KnownAnswer kKnownAnswers[] = {
    {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     {{0xffffffff, 0xffffffff}},
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     {{0xa4093822, 0x299f31d0}},
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};

constexpr bool agrees(const KnownAnswer& known) {
  const Philox4x32Block block = philox4x32(known.counter, known.key);
  for (int i = 0; i < 4; ++i) {
    if (block.word[i] != known.result.word[i]) return false;
  }
  return true;
}

static_assert(agrees(kKnownAnswers[0]), "usable at compile time");

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  for (const KnownAnswer& known : kKnownAnswers) EXPECT_TRUE(agrees(known));
}

TEST(Philox, TakesTheLowWordOfTheSeedFirst) {
  const Philox4x32Key key = philox_key(0x0123456789abcdefULL);
  EXPECT_EQ(key.word[0], 0x89abcdefu);
  EXPECT_EQ(key.word[1], 0x01234567u);
}

TEST(Philox, NeighbouringCountersAndKeysDifferInAboutHalfOfTheBits) {
  // 128 bits each: 64 +- 5.7 differ; over 6 * 200 pairs the mean is 64 +- 0.16.
  int bits = 0;
  int pairs = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    const Philox4x32Block base = philox4x32({{i, 0, 0, 0}}, {{7, 0}});
    std::vector<Philox4x32Block> others;
    for (int word = 0; word < 4; ++word) {
      Philox4x32Block counter{{i, 0, 0, 0}};
      counter.word[word] ^= 1u << (i % 32);
      others.push_back(philox4x32(counter, {{7, 0}}));
    }
    others.push_back(philox4x32({{i, 0, 0, 0}}, {{8, 0}}));
    others.push_back(philox4x32({{i, 0, 0, 0}}, {{7, 1}}));
    for (const Philox4x32Block& other : others) {
      ++pairs;
      for (int j = 0; j < 4; ++j) {
        bits += __builtin_popcount(base.word[j] ^ other.word[j]);
      }
    }
  }
  EXPECT_NEAR(static_cast<double>(bits) / pairs, 64.0, 0.8);
}

TEST(Philox, DoesNotRepeatBlocks) {
  std::set<std::array<uint32_t, 4>> seen;
  for (uint32_t i = 0; i < 20000; ++i) {
    const Philox4x32Block block = philox4x32({{i, 0, 0, 0}}, {{1, 2}});
    seen.insert({block.word[0], block.word[1], block.word[2], block.word[3]});
  }
  EXPECT_EQ(seen.size(), 20000u);
}

}  // namespace
