// Claims of payload, beside a slow model of them.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "claims_support.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace {

using echobuf::Claims;
using echobuf::Ring;
using echobuf::test::claim;
using echobuf::test::Ids;
using echobuf::test::note_ends;
using Claim = Claims::Claim;

/// A record that has been claimed, as the model has it.
struct ClaimedRecord {
  std::uint64_t start, end;  // of its payload, in places
  bool done = false;
};

/// What the claims are: records, looked at one by one.
class ClaimsModel {
 public:
  ClaimsModel(std::uint64_t records, std::uint64_t units)
      : records_(records), units_(units) {}

  /// Claims what fits of these sizes; their number.
  std::uint64_t claim(const Ids& sizes) {
    std::uint64_t count = 0;
    for (const std::uint64_t size : sizes) {
      if (!has_room(size)) break;
      const std::uint64_t start = start_of(size);
      all_.push_back({start, start + size});
      ++count;
    }
    return count;
  }
  bool has_room(std::uint64_t size) const {
    return tail() < released_ + records_ && start_of(size) + size <= freed() + units_;
  }
  std::uint64_t start_of(std::uint64_t size) const {
    const std::uint64_t at = place();
    // A record that would cross the end of the ring begins at its start.
    return at % units_ + size > units_ ? (at / units_ + 1) * units_ : at;
  }
  void commit(std::uint64_t position) { all_[position].done = true; }
  void release(std::uint64_t position) { released_ = position; }

  std::uint64_t tail() const { return all_.size(); }
  std::uint64_t released() const { return released_; }
  std::uint64_t committed() const {
    std::uint64_t at = released_;
    while (at < all_.size() && all_[at].done) ++at;
    return at;
  }
  const ClaimedRecord& operator[](std::uint64_t position) const {
    return all_[position];
  }

 private:
  std::uint64_t place() const { return all_.empty() ? 0 : all_.back().end; }
  std::uint64_t freed() const { return released_ ? all_[released_ - 1].end : 0; }

  const std::uint64_t records_, units_;
  std::vector<ClaimedRecord> all_;
  std::uint64_t released_ = 0;
};

struct RingSize {
  std::uint64_t records, units;
};
class ClaimsOf : public testing::TestWithParam<RingSize> {};
INSTANTIATE_TEST_SUITE_P(Claims, ClaimsOf,
                         testing::Values(RingSize{1, 1}, RingSize{1, 7}, RingSize{2, 3},
                                         RingSize{3, 10}, RingSize{5, 64},
                                         RingSize{16, 5}, RingSize{40, 1000}),
                         [](const testing::TestParamInfo<RingSize>& info) {
                           return std::to_string(info.param.records) + "Of" +
                                  std::to_string(info.param.units);
                         });

TEST_P(ClaimsOf, DoWhatAModelDoes) {
  const auto [records, units] = GetParam();
  std::mt19937_64 random(records * 1000 + units);
  Ring ring({.capacity = records, .units = units});
  ClaimsModel model(records, units);
  std::deque<std::pair<Claim, Ids>> open;
  const std::uint64_t largest = (units + 1) / 2;
  std::uint64_t large = 0, refused = 0;
  for (int step = 0; step < 20000; ++step) {
    switch (random() % 3) {
      case 0: {
        Ids sizes(random() % (records + 2));
        for (std::uint64_t& size : sizes) switch (random() % 5) {
            case 0:
              size = largest;
              break;
            case 1:
              size = random() % (units + 1);
              break;
            default:
              size = random() % (units / 4 + 1);
          }
        const std::uint64_t tail = model.tail();
        ring.clear_held_back();
        const Claim got = claim(ring, sizes);
        ASSERT_FALSE(got.closed);
        ASSERT_EQ(got.count, model.claim(sizes));
        ASSERT_EQ(ring.held_back(), got.count < sizes.size());
        refused += got.count < sizes.size();
        if (got.count == 0) break;
        ASSERT_EQ(got.first, tail);
        const Ids starts = note_ends(ring, got, sizes);
        for (std::uint64_t i = 0; i < got.count; ++i) {
          ASSERT_EQ(starts[i], model[tail + i].start);
          large += sizes[i] >= largest;
        }
        open.push_back({got, sizes});
        break;
      }
      case 1: {
        if (open.empty()) break;
        const auto any =
            open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
        ring.commit(any->first.first, any->first.count);
        for (std::uint64_t i = 0; i < any->first.count; ++i)
          model.commit(any->first.first + i);
        open.erase(any);
        break;
      }
      default:
        model.release(model.released() +
                      random() % (model.committed() - model.released() + 1));
        ring.release(model.released());
    }
    ASSERT_EQ(ring.tail(), model.tail());
    ASSERT_EQ(ring.committed(), model.committed());
    ASSERT_EQ(ring.released(), model.released());
    for (const std::uint64_t size : {std::uint64_t{0}, largest, units})
      ASSERT_EQ(ring.claims().has_room(size), model.has_room(size));
  }
  EXPECT_GT(ring.tail(), 10 * records) << "went around";
  EXPECT_GT(model[model.tail() - 1].end, 10 * units);
  EXPECT_GT(large, 5u) << "as large as always fit";
  EXPECT_GT(refused, 5u);
}

}  // namespace
