#include "echobuf/schedule/permutation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "echobuf/schedule/permutation_range.hpp"
#include "rounds.hpp"

namespace {

using echobuf::cpu_level;
using echobuf::CpuLevel;
using echobuf::Permutation;
using echobuf::permutation_key;
using echobuf::permute_range;
using echobuf::test::kSanitized;
namespace feistel = echobuf::feistel;

std::vector<CpuLevel> levels() {
  std::vector<CpuLevel> all;
  for (int level = 0; level <= static_cast<int>(cpu_level()); ++level) {
    all.push_back(static_cast<CpuLevel>(level));
  }
  return all;
}

bool is_bijection(const std::vector<uint32_t>& values) {
  std::vector<char> seen(values.size(), 0);
  for (const uint32_t value : values) {
    if (value >= values.size() || seen[value]) return false;
    seen[value] = 1;
  }
  return true;
}

std::vector<uint32_t> whole(const Permutation& permutation, CpuLevel level) {
  std::vector<uint32_t> out(permutation.size());
  permute_range(permutation, 0, permutation.size(), out.data(), level);
  return out;
}

std::vector<uint32_t> sizes_around_powers_of_two(int low, int high) {
  std::vector<uint32_t> sizes;
  for (int bit = low; bit <= high; ++bit) {
    for (const int64_t offset : {-1, 0, 1}) {
      const int64_t n = (int64_t{1} << bit) + offset;
      if (n <= echobuf::kPermutationMaxSize) sizes.push_back(static_cast<uint32_t>(n));
    }
  }
  return sizes;
}

// From tests/permutation_reference.py, which is written from the specification.
TEST(Permutation, GivesTheKnownAnswersOfTheReference) {
  struct Known {
    uint32_t n;
    uint64_t seed, epoch, pass;
    uint32_t first[5];
  };
  const Known known[] = {
      {5u, 0u, 0u, 0u, {3u, 4u, 1u, 0u, 2u}},
      {31u, 1u, 2u, 3u, {13u, 5u, 26u, 6u, 28u}},
      {100u, 7u, 1u, 9u, {51u, 41u, 91u, 64u, 32u}},
      {1000u,
       1099511627781u,
       8589934592u,
       1125899906842625u,
       {80u, 328u, 193u, 191u, 530u}},
      {4096u, 1u, 0u, 0u, {1360u, 3207u, 2323u, 546u, 2124u}},
      {65537u, 3u, 4u, 5u, {37464u, 8323u, 52576u, 10306u, 49839u}},
      {2147483647u,
       18446744073709551615u,
       18446744073709551615u,
       72057594037927935u,
       {2113216044u, 812319179u, 1030054208u, 86654886u, 656981243u}},
  };
  for (const Known& k : known) {
    const Permutation permutation(k.n, permutation_key(k.seed, k.epoch, k.pass));
    for (uint32_t t = 0; t < 5; ++t) EXPECT_EQ(permutation(t), k.first[t]) << k.n;
  }
}

TEST(Permutation, IsUsableAtCompileTime) {
  constexpr Permutation kPermutation(5, permutation_key(1, 2, 3));
  static_assert(kPermutation(0) < 5 && kPermutation(0) != kPermutation(1));
  static_assert(std::is_trivially_copyable_v<Permutation>,
                "goes into kernel arguments");
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (uint32_t n = 1; n <= 4096; n += kSanitized ? 7 : 1) {
    const Permutation permutation(n, permutation_key(n, 1, 2));
    ASSERT_TRUE(is_bijection(whole(permutation, cpu_level()))) << n;
  }
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (const uint32_t n : sizes_around_powers_of_two(12, kSanitized ? 19 : 22)) {
    const Permutation permutation(n, permutation_key(1, n, 2));
    ASSERT_TRUE(is_bijection(whole(permutation, cpu_level()))) << n;
  }
}

TEST(Permutation, StaysInRangeAndDistinctAtLargeSizes) {
  for (const uint32_t n : sizes_around_powers_of_two(23, 31)) {
    const Permutation permutation(n, permutation_key(1, 2, n));
    std::unordered_set<uint32_t> seen;
    std::vector<uint32_t> part(3000);
    for (const uint32_t first : {uint32_t{0}, n / 2, n - 3000}) {
      permute_range(permutation, first, 3000, part.data());
      for (uint32_t i = 0; i < 3000; ++i) {
        ASSERT_LT(part[i], n);
        ASSERT_TRUE(seen.insert(part[i]).second) << n;
        if (i % 100 == 0) {
          ASSERT_EQ(part[i], permutation(first + i));
        }
      }
    }
  }
}

TEST(Permutation, IsABijectionWithAnyNumberOfRounds) {
  for (const int rounds : {2, 4, 10, 16, 18, 40}) {
    for (const uint32_t n : {1u, 2u, 3u, 5u, 31u, 257u, 1009u}) {
      const Permutation permutation(n, permutation_key(3, 2, 1), rounds);
      for (const CpuLevel level : levels()) {
        ASSERT_TRUE(is_bijection(whole(permutation, level))) << n << " " << rounds;
      }
    }
  }
}

TEST(Permutation, EveryPartOfTheKeyEnters) {
  const auto order = [](uint64_t seed, uint64_t epoch, uint64_t pass) {
    return whole(Permutation(1000, permutation_key(seed, epoch, pass)),
                 CpuLevel::kBaseline);
  };
  const std::vector<uint32_t> base = order(0, 0, 0);
  EXPECT_EQ(base, order(0, 0, 0));
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(base, order(uint64_t{1} << bit, 0, 0));
    EXPECT_NE(base, order(0, uint64_t{1} << bit, 0));
    if (bit < 56) {
      EXPECT_NE(base, order(0, 0, uint64_t{1} << bit));
    }
  }
}

TEST(Domain, HoldsTheSizeWithAnEvenLeftRadixAndLittleOverhang) {
  std::vector<uint32_t> sizes = sizes_around_powers_of_two(12, 31);
  for (uint32_t n = 1; n <= 4096; ++n) sizes.push_back(n);
  sizes.push_back(46340u * 46340u);
  for (const uint32_t n : sizes) {
    const feistel::Domain domain = feistel::make_domain(n);
    const uint64_t pairs = uint64_t{domain.left} * domain.right;
    EXPECT_EQ(domain.left % 2, 0u);
    EXPECT_GE(pairs, n);
    EXPECT_LT(pairs, uint64_t{n} + domain.left);
    EXPECT_LT(pairs, uint64_t{1} << 32);
  }
}

TEST(Domain, DividesExactlyByMultiplication) {
  std::vector<uint32_t> sizes = sizes_around_powers_of_two(3, 31);
  for (uint32_t n = 1; n <= 5000; n += 7) sizes.push_back(n);
  for (const uint32_t n : sizes) {
    const feistel::Domain domain = feistel::make_domain(n);
    const auto check = [&](uint32_t x) {
      const uint32_t q = feistel::high_product(x, domain.reciprocal) >> domain.shift;
      ASSERT_EQ(q, x / domain.left) << x;
    };
    // The quotient can only be wrong next to a multiple of the divisor.
    for (uint32_t i = 0; i < 200; ++i) {
      const uint32_t multiple = 0x7FFFFFFFu / domain.left - i;
      check(multiple * domain.left);
      check(multiple * domain.left - 1);
      check(std::min(i, n - 1));
    }
    check(0x7FFFFFFFu);
  }
}

class PermuteRange : public testing::TestWithParam<CpuLevel> {};

TEST_P(PermuteRange, EqualsTheCallOperatorForEveryFirstAndCount) {
  for (const uint32_t n : {1u, 2u, 7u, 63u, 64u, 65u, 150u, 263u, 300u}) {
    const Permutation permutation(n, permutation_key(9, n, 0));
    std::vector<uint32_t> expected(n);
    for (uint32_t t = 0; t < n; ++t) expected[t] = permutation(t);
    std::vector<uint32_t> out(n + 2);
    for (uint32_t first = 0; first < n; first += n > 100 ? 3 : 1) {
      for (uint32_t count = 0; first + count <= n; count += n > 100 ? 5 : 1) {
        // Starts one word in: `out` need not be aligned.
        std::fill(out.begin(), out.end(), 0xFFFFFFFFu);
        permute_range(permutation, first, count, out.data() + 1, GetParam());
        ASSERT_TRUE(std::equal(out.begin() + 1, out.begin() + 1 + count,
                               expected.begin() + first));
        ASSERT_EQ(out[0], 0xFFFFFFFFu);
        ASSERT_EQ(out[1 + count], 0xFFFFFFFFu) << "wrote past the end";
      }
    }
  }
}

TEST_P(PermuteRange, EqualsTheCallOperatorAtManySizes) {
  std::vector<uint32_t> sizes = sizes_around_powers_of_two(9, 31);
  for (uint32_t n = 301; n < 70000; n = n * 9 / 8 + 1) sizes.push_back(n);
  for (const uint32_t n : sizes) {
    const Permutation permutation(n, permutation_key(4, 5, n));
    std::vector<uint32_t> out(300);
    for (const uint32_t first : {uint32_t{0}, (n - 300) / 3, n - 300}) {
      permute_range(permutation, first, 300, out.data(), GetParam());
      for (uint32_t i = 0; i < 300; ++i) ASSERT_EQ(out[i], permutation(first + i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, PermuteRange, testing::ValuesIn(levels()),
                         [](const auto& info) {
                           switch (info.param) {
                             case CpuLevel::kAvx512:
                               return "Avx512";
                             case CpuLevel::kAvx2:
                               return "Avx2";
                             default:
                               return "Baseline";
                           }
                         });

}  // namespace
