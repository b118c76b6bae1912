#include "echobuf/schedule/echoes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "echobuf/schedule/sweep.hpp"
#include "support.hpp"

namespace {

using echobuf::AutoSweep;
using echobuf::Echoes;
using echobuf::FixedSweep;
using echobuf::Part;
using echobuf::Ratio;
using echobuf::Step;
using echobuf::UpstreamProgress;

using Numbers = std::vector<std::uint32_t>;

/// Echoes of the window of `part`, place by place, which both calls agree on.
template <class Sweep>
Numbers echoes_of(const Sweep& walk, const Part& part) {
  Echoes echoes;
  walk.for_segments(part, [&](std::uint64_t start, std::uint64_t echo) {
    echoes.add(static_cast<std::uint32_t>(start - part.window.first),
               static_cast<std::uint32_t>(echo));
  });
  Numbers places(part.window.count);
  std::iota(places.begin(), places.end(), 0u);
  Numbers all(places.size());
  echoes.of(places.data(), places.size(), all.data());
  for (const std::uint32_t place : places) EXPECT_EQ(echoes.of(place), all[place]);
  return all;
}

/// Draws all passes, and compares echoes with the uses counted one by one.
template <class Sweep>
void expect_counted(Sweep& sweep, std::uint64_t n, std::mt19937_64& random) {
  std::map<std::uint64_t, std::uint32_t> uses;
  UpstreamProgress progress;
  std::uint64_t parts = 0;
  for (;;) {
    Part part;
    const Step step = sweep.step(progress, 1 + random() % 9, part);
    if (step == Step::kFinished) break;
    if (step == Step::kWait) {
      progress.committed = std::min(n, progress.committed + 1 + random() % 6);
      progress.ended = progress.committed == n;
      continue;
    }
    ++parts;
    const Numbers echoes = echoes_of(sweep, part);
    for (std::uint64_t place = 0; place < part.window.count; ++place)
      ASSERT_EQ(echoes[place], uses[part.window.first + place]) << part.pass;
    if (part.offset + part.count < part.window.count) continue;
    for (std::uint64_t place = 0; place < part.window.count; ++place)
      ++uses[part.window.first + place];  // the pass is over
  }
  ASSERT_EQ(uses.size(), n);
  ASSERT_GE(parts, n > 0 ? 1u : 0u);
}

TEST(Echoes, AreTheUsesBeforeWithAFixedFactor) {
  std::mt19937_64 random(5);
  const std::vector<Ratio> factors = {{1, 1},  {2, 1}, {5, 1},
                                      {12, 1}, {5, 2}, {19, 10}};
  for (const Ratio factor : factors)
    for (const std::uint64_t window : {12u, 13u, 40u})
      for (const std::uint64_t n : {0u, 1u, 11u, 12u, 130u})
        for (std::uint64_t phase = 0; phase < factor.den; phase += 3) {
          FixedSweep sweep(window, factor, phase);
          expect_counted(sweep, n, random);
        }
}

TEST(Echoes, AreTheUsesBeforeWithAuto) {
  std::mt19937_64 random(6);
  for (const std::uint32_t most : {1u, 2u, 7u})
    for (const std::uint64_t window : {1u, 5u, 40u, 64u})
      for (const std::uint64_t n : {0u, 1u, 40u, 200u})
        for (int round = 0; round < 5; ++round) {
          AutoSweep sweep(window, 1 + random() % window, most);
          expect_counted(sweep, n, random);
        }
}

}  // namespace
