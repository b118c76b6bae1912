#pragma once

#include "echobuf/platform.hpp"
#include "echobuf/schedule/random.hpp"

// A keyed bijection of [0, n): the order of one pass, as a pure value.
//
// Specification (tests/permutation_reference.py is written from it alone; all
// arithmetic is on unsigned integers, `mod 2^32` where a word overflows):
//
//   domain   base = floor(sqrt(n)), plus 1 if that is odd, and at least 2. Of the even
//            a = base, base + 2, ..., base + 14 that are not above base + base div 4,
//            the first for which a * ceil(n / a) is least; b = ceil(n / a).
//            An index x stands for the pair (left, right) = (x mod a, x div a), so
//            a*b >= n pairs are permuted.
//   key      sixteen words: Philox4x32-10 under the key `seed`, of the four counters
//            (epoch mod 2^32, epoch div 2^32, pass mod 2^32,
//             pass div 2^32 + (0xA0 + i) * 2^24), i = 0..3.
//   F        F(value, k, range):  x = (value xor k) * 0x7FEB352D mod 2^32
//                                 x = x xor (x div 2^15)
//                                 x = x * 0x846CA68B mod 2^32
//                                 F = x * range div 2^32
//   rounds   36 for n < 32, 16 for n < 256, 12 for n < 1024, else 10;
//            for r = 0, 2, 4, ... below that number:
//              left  = (left  + F(right, k[r], a)) mod a
//              right = (right + F(left, k[r + 1], b)) mod b
//            with k[r] = key[r mod 16] + (r div 16) * 0x9E3779B9 mod 2^32
//   walk     x = left + a * right; while x >= n, the rounds are applied again.
//
// Source: the mixed-radix Feistel network and the cycle walking are J. Black and
// P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, sections 4 and 5.
// F is multiply, shift, multiply, with the constants of C. Wellons' "lowbias32" hash.
// Its last shift is left out, since only the high bits are used, and its first, since
// the key reaches all bits already: the tests cannot tell it from a costlier F.
//
// Why `a` is even: with two odd radices every round is an even permutation (it moves
// cycles of odd length), and half of all orders could never come. Why the least a*b:
// an index that has to walk costs a lane as much again, and the usual sizes, being
// products of small numbers, then have none (n = 1000: 40 * 25, not 32 * 32).

namespace echobuf {

/// The largest n that can be permuted.
inline constexpr uint32_t kPermutationMaxSize = 0x7FFFFFFFu;

inline constexpr int kPermutationKeyWords = 16;

/// The top byte of the last Philox counter word of a permutation key, 0xA0 to 0xA3.
/// Other uses of Philox under the same seed keep away from these values.
inline constexpr uint32_t kPermutationTag = 0xA0;

/// The key that selects one of the permutations of [0, n).
struct PermutationKey {
  uint32_t word[kPermutationKeyWords];
};

/// The key of one pass. All of `seed`, `epoch` and `pass` (below 2^56) enter.
ECHOBUF_HD constexpr PermutationKey permutation_key(uint64_t seed, uint64_t epoch,
                                                    uint64_t pass) {
  PermutationKey key{};
  for (uint32_t i = 0; i < kPermutationKeyWords / 4; ++i) {
    const Philox4x32Block counter{
        {static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32),
         static_cast<uint32_t>(pass),
         static_cast<uint32_t>(pass >> 32) + ((kPermutationTag + i) << 24)}};
    const Philox4x32Block block = philox4x32(counter, philox_key(seed));
    for (uint32_t j = 0; j < 4; ++j) key.word[4 * i + j] = block.word[j];
  }
  return key;
}

/// Returns how many Feistel rounds a permutation of n elements gets: the fewest that
/// passed, and about half as many again.
///
/// Small networks mix less a round (with a = 2, b = 3 there is little to choose from),
/// so one number for all n would make the large ones pay. Found by chi-squared over the
/// joint outcome of the positions named, 3 million keys (n < 32) or 20 million, as a
/// z-score by number of rounds:
///
///     n     positions    4     6     8    10    12    14    16    18    20    22    24
///     4     all               54    17   2.9   1.2   0.4
///     6     all              656   392   227   125    61    26   7.6   2.5   1.1   0.8
///     8     all             2501  1412   776   397   180    74    27    12   3.1   0.2
///     12    0 1 4 5          547   151    24   2.9  -1.0   1.0
///     20    0 1 4 5          227    14   3.7  -1.3
///     31    0 1 6 7           16   0.3  -1.6  -0.7
///     33    0 1 6            183   6.2   0.0  -0.8
///     64    0 1 8             58   1.3  -0.4  -0.3
///     151   0 1               62  -1.9   0.3   0.0
///     256   0 1        892    11   1.0  -1.2  -0.4
///     300   0 1       1074    18   1.8  -2.3   0.5
///     1000  0 1        647   0.7   0.3   0.8
///     4096  0 1         53  -1.3   1.4  -1.0
///
/// So the fewest are 24 for n <= 8, 14 up to 31, 10 up to 255, 8 up to 400 and 6 from
/// 1000 on. tests/test_permutation_quality.py keeps a smaller version of this.
ECHOBUF_HD constexpr int permutation_rounds(uint32_t n) {
  if (n < 32) return 36;
  if (n < 256) return 16;
  return n < 1024 ? 12 : 10;
}

/// The arithmetic of one Feistel round, shared with permutation_range.hpp.
namespace feistel {

inline constexpr uint32_t kMultiplier0 = 0x7FEB352Du;
inline constexpr uint32_t kMultiplier1 = 0x846CA68Bu;
inline constexpr int kShift = 15;
inline constexpr uint32_t kKeyStep = 0x9E3779B9u;

ECHOBUF_HD constexpr uint32_t high_product(uint32_t x, uint32_t y) {
  return static_cast<uint32_t>((uint64_t{x} * y) >> 32);
}

/// F: a number below `range` that looks unrelated to `value`.
ECHOBUF_HD constexpr uint32_t draw(uint32_t value, uint32_t key, uint32_t range) {
  uint32_t x = (value ^ key) * kMultiplier0;
  x ^= x >> kShift;
  return high_product(x * kMultiplier1, range);
}

/// (x + y) mod m for x, y < m <= 2^31. The difference wraps to a large number exactly
/// when x + y < m, so the smaller one is right: no branch.
ECHOBUF_HD constexpr uint32_t add_modulo(uint32_t x, uint32_t y, uint32_t m) {
  const uint32_t sum = x + y;
  const uint32_t less = sum - m;
  return less < sum ? less : sum;
}

ECHOBUF_HD constexpr uint32_t floor_sqrt(uint32_t n) {
  uint32_t root = 0;
  for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1) {
    const uint32_t larger = root | bit;
    if (larger * larger <= n) root = larger;
  }
  return root;
}

/// The radices of the mixed-radix network, and x div `left` as a multiplication.
struct Domain {
  uint32_t size;        // n
  uint32_t left;        // a
  uint32_t right;       // b
  uint32_t reciprocal;  // x div a = (x * reciprocal) >> (32 + shift), for x < 2^31
  uint32_t shift;
};

/// With 2^s >= a, reciprocal = floor(2^(31+s) / a) + 1 = (2^(31+s) + e) / a, e <= a.
/// x * reciprocal / 2^(31+s) is then x / a plus less than 1 / a for x < 2^31, so its
/// floor is exact; reciprocal < 2^32 since s is the least such number.
ECHOBUF_HD constexpr Domain make_domain(uint32_t n) {
  const uint32_t root = floor_sqrt(n);
  const uint32_t base = root < 2 ? 2 : root + (root & 1);
  uint32_t left = base;
  uint32_t right = (n + base - 1) / base;
  for (uint32_t a = base + 2; a <= base + 14 && a <= base + base / 4; a += 2) {
    const uint32_t b = (n + a - 1) / a;
    if (a * b >= left * right) continue;
    left = a;
    right = b;
  }
  uint32_t log = 1;
  while ((1u << log) < left) ++log;
  const uint64_t reciprocal = (uint64_t{1} << (31 + log)) / left + 1;
  return {n, left, right, static_cast<uint32_t>(reciprocal), log - 1};
}

}  // namespace feistel

/// A permutation of [0, n): `permutation(t)` is the t-th element of the order.
///
/// A pure value without pointers, that can be copied into a kernel's arguments.
class Permutation {
 public:
  /// Of nothing; to be assigned to.
  Permutation() = default;

  /// 1 <= n <= kPermutationMaxSize. `rounds`, even, is for tests of the statistics.
  ECHOBUF_HD constexpr Permutation(uint32_t n, const PermutationKey& key, int rounds)
      : domain_(feistel::make_domain(n)), rounds_(rounds), key_(key) {}

  ECHOBUF_HD constexpr Permutation(uint32_t n, const PermutationKey& key)
      : Permutation(n, key, permutation_rounds(n)) {}

  /// The order of the indices as they are.
  ECHOBUF_HD static constexpr Permutation identity(uint32_t n) {
    return Permutation(n, PermutationKey{}, 0);
  }

  ECHOBUF_HD constexpr uint32_t size() const { return domain_.size; }

  /// Returns the image of t < n.
  ECHOBUF_HD constexpr uint32_t operator()(uint32_t t) const {
    const uint32_t right =
        feistel::high_product(t, domain_.reciprocal) >> domain_.shift;
    return walk(t - right * domain_.left, right);
  }

  /// Applies the rounds to (left, right) until they stand for an index below n. Ends
  /// for every pair on the way from an index below n: a bijection leads back to it.
  ECHOBUF_HD constexpr uint32_t walk(uint32_t left, uint32_t right) const {
    const uint32_t a = domain_.left;
    const uint32_t b = domain_.right;
    uint32_t x = 0;
    do {
      for (int r = 0; r < rounds_; r += 2) {
        left = feistel::add_modulo(left, feistel::draw(right, round_key(r), a), a);
        right = feistel::add_modulo(right, feistel::draw(left, round_key(r + 1), b), b);
      }
      x = left + right * a;
    } while (x >= domain_.size);
    return x;
  }

  ECHOBUF_HD constexpr const feistel::Domain& domain() const { return domain_; }
  ECHOBUF_HD constexpr int rounds() const { return rounds_; }

  ECHOBUF_HD constexpr uint32_t round_key(int r) const {
    const auto index = static_cast<uint32_t>(r);
    return key_.word[index % kPermutationKeyWords] +
           index / kPermutationKeyWords * feistel::kKeyStep;
  }

 private:
  feistel::Domain domain_{};
  int rounds_ = 0;
  PermutationKey key_{};
};

}  // namespace echobuf
