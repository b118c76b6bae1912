// The history of a block by ranges equals one that is kept byte by byte.
#include "shadow.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace echobuf::simulated::test {
namespace {

using Byte = std::tuple<std::size_t, std::size_t, std::uint64_t, bool>;
using Found = std::set<Byte>;  // byte, earlier actor, its tick, whether it wrote

class ByteByByte {
 public:
  explicit ByteByByte(std::size_t bytes) : cells_(bytes) {}

  Found access(std::size_t begin, std::size_t end, const Actor& by, bool write) {
    Found found;
    for (std::size_t at = begin; at < end; ++at) {
      Cell& cell = cells_[at];
      if (cell.write && !by.is_after(*cell.write))
        found.emplace(at, cell.write->actor, cell.write->tick, true);
      for (const auto& [actor, read] : cell.reads)
        if (write && !by.is_after(*read)) found.emplace(at, actor, read->tick, false);
      if (write)
        cell = {by.label, {}};
      else
        cell.reads[by.label->actor] = by.label;
    }
    return found;
  }

  std::size_t first_unwritten(std::size_t begin, std::size_t end) const {
    while (begin < end && cells_[begin].write) ++begin;
    return begin;
  }

 private:
  struct Cell {
    LabelPointer write;
    std::map<std::size_t, LabelPointer> reads;
  };
  std::vector<Cell> cells_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(engine_);
  }

 private:
  std::mt19937_64 engine_;
};

TEST(Shadow, EqualsAHistoryOfEachByte) {
  constexpr std::size_t kBytes = 40, kActors = 3, kSteps = 300;
  std::size_t conflicts = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    Shadow shadow;
    ByteByByte reference(kBytes);
    std::array<VectorClock, kActors> clocks;
    for (std::size_t step = 0; step < kSteps; ++step) {
      const std::size_t number = random.below(kActors);
      VectorClock& clock = clocks.at(number);
      if (random.below(2) == 0) clock.join(clocks.at(random.below(kActors)));
      clock.set(number, clock.at(number) + 1);
      const Actor by{std::make_shared<const Label>(Label{"", number, clock.at(number)}),
                     clock, 0};
      const std::size_t one = random.below(kBytes + 1), two = random.below(kBytes + 1);
      const auto [begin, end] = std::minmax(one, two);
      const bool write = random.below(3) == 0;
      ASSERT_EQ(shadow.first_unwritten(begin, end),
                reference.first_unwritten(begin, end));
      Found found;
      shadow.access(begin, end, by, write, [&](const Conflict& conflict) {
        for (std::size_t at = conflict.begin; at < conflict.end; ++at)
          found.emplace(at, conflict.earlier->actor, conflict.earlier->tick,
                        conflict.earlier_writes);
      });
      ASSERT_EQ(found, reference.access(begin, end, by, write))
          << "seed " << seed << ", step " << step;
      conflicts += found.size();
    }
  }
  EXPECT_GT(conflicts, 0U);
}

}  // namespace
}  // namespace echobuf::simulated::test
