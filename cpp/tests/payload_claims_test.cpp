#include "echobuf/store/payload_claims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::PayloadClaims;
using echobuf::PayloadRing;
using echobuf::test::far_off;
using echobuf::test::Ids;
using echobuf::test::Threads;
using Claim = PayloadClaims::Claim;

/// A record that has been claimed, as the model has it.
struct Record {
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
  const Record& operator[](std::uint64_t position) const { return all_[position]; }

 private:
  std::uint64_t place() const { return all_.empty() ? 0 : all_.back().end; }
  std::uint64_t freed() const { return released_ ? all_[released_ - 1].end : 0; }

  const std::uint64_t records_, units_;
  std::vector<Record> all_;
  std::uint64_t released_ = 0;
};

Claim claim(PayloadRing& ring, const Ids& sizes) {
  return ring.claims().claim(
      sizes.size(), [&](std::uint64_t i) { return sizes[i]; }, ring.term());
}

/// Notes where the payload of a claim ends, as those who put do, and says where each
/// record of it lies.
Ids note_ends(PayloadRing& ring, const Claim& claim, const Ids& sizes) {
  std::uint64_t place = claim.place;
  Ids starts;
  for (std::uint64_t i = 0; i < claim.count; ++i) {
    starts.push_back(ring.claims().take(place, sizes[i]));
    ring.claims().end_at(claim.first + i, place);
  }
  return starts;
}

struct Size {
  std::uint64_t records, units;
};
class PayloadClaimsOf : public testing::TestWithParam<Size> {};
INSTANTIATE_TEST_SUITE_P(PayloadClaims, PayloadClaimsOf,
                         testing::Values(Size{1, 1}, Size{1, 7}, Size{2, 3},
                                         Size{3, 10}, Size{5, 64}, Size{16, 5},
                                         Size{40, 1000}),
                         [](const testing::TestParamInfo<Size>& info) {
                           return std::to_string(info.param.records) + "Of" +
                                  std::to_string(info.param.units);
                         });

TEST_P(PayloadClaimsOf, DoWhatAModelDoes) {
  const auto [records, units] = GetParam();
  std::mt19937_64 random(records * 1000 + units);
  PayloadRing ring(records, units);
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

TEST(PayloadClaims, HoldNoTwoRecordsThatOverlap) {
  constexpr std::uint64_t kUnits = 97;
  std::mt19937_64 random(1);
  PayloadRing ring(16, kUnits);
  std::deque<std::pair<std::uint64_t, std::uint64_t>> live;  // start, size
  std::uint64_t last_end = 0;
  for (int step = 0; step < 20000; ++step) {
    const Ids sizes = {random() % 40};
    const Claim got = claim(ring, sizes);
    if (got.count == 0) {
      const std::uint64_t leaving = 1 + random() % live.size();
      ring.release(ring.released() + leaving);
      live.erase(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(leaving));
      continue;
    }
    const std::uint64_t place = note_ends(ring, got, sizes)[0];
    ASSERT_GE(place, last_end) << "places are in the order of positions";
    last_end = place + sizes[0];
    const std::uint64_t start = place % kUnits;
    ASSERT_LE(start + sizes[0], kUnits) << "wraps around";
    for (const auto& [other, size] : live)
      ASSERT_TRUE(start + sizes[0] <= other || other + size <= start || sizes[0] == 0 ||
                  size == 0);
    live.push_back({start, sizes[0]});
    ring.commit(got.first, 1);
    ASSERT_EQ(ring.committed(), got.first + 1);
  }
}

TEST(PayloadClaims, HaveRoomForHalfOfARingThatIsFree) {
  for (const std::uint64_t units : {1, 2, 3, 8, 31}) {
    const std::uint64_t largest = (units + 1) / 2;
    for (std::uint64_t at = 0; at < units; ++at) {  // where the payload has come to
      PayloadRing ring(units + 1, units);
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

TEST(PayloadClaims, HaveRoomForTheLargestBesideAllThatMayStay) {
  constexpr std::uint64_t kRecords = 400;
  std::mt19937_64 random(3);
  for (const std::uint64_t most : {1, 2, 7, 30})
    for (const std::uint64_t stay : {1, 5, 60, 200}) {
      const std::uint64_t wrap_from = stay + most, units = wrap_from + most;
      PayloadRing ring(kRecords, units, 0, 0, nullptr, wrap_from);
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

TEST(PayloadClaims, GoOnBeyondTheDigitsOfTheirWord) {
  // Positions past 2^24, places past 2^30.
  constexpr std::uint64_t kRecords = 1 << 10, kUnits = (1 << 20) + 3, kRun = 64;
  PayloadRing ring(kRecords, kUnits);
  const std::uint64_t term = ring.term();
  std::uint64_t position = 0, place = 0;
  const auto size_of = [&](std::uint64_t i) { return (position + i) % 131; };
  while (position < (std::uint64_t{1} << 24) + 5 * kRecords) {
    const Claim got = ring.claims().claim(kRun, size_of, term);
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

TEST(PayloadClaims, HoldAsManyRecordsAsTheWordTells) {
  // A full ring: the position is as far from the limit as it can be, and then none.
  constexpr std::uint64_t kRecords = PayloadClaims::kMostRecords;
  PayloadClaims claims(kRecords, PayloadClaims::kMostUnits);
  std::uint64_t place = 0;
  for (std::uint64_t lap = 0; lap < 2; ++lap) {
    std::uint64_t position = lap * kRecords;
    while (position < (lap + 1) * kRecords) {
      const Claim got = claims.claim(
          1 << 16, [](std::uint64_t) { return std::uint64_t{7}; }, claims.term());
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

TEST(PayloadClaims, RefuseWhenClosedAndKnowTheirTerm) {
  PayloadRing ring(4, 10);
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
  const auto one = [](std::uint64_t) { return std::uint64_t{1}; };
  EXPECT_TRUE(ring.claims().claim(1, one, old).closed);
  const Claim got = claim(ring, {7, 0, 0, 0});
  EXPECT_EQ(got.first, 2u) << "positions go on";
  EXPECT_EQ(got.place, 3u) << "and places";
  EXPECT_EQ(got.count, 4u);
}

TEST(PayloadClaims, GoThroughAllTermsWithoutTouchingPositionsAndPlaces) {
  PayloadRing ring(2, 9);
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

TEST(PayloadClaims, PassOverPositionsOfAClosedRing) {
  constexpr std::uint64_t kRecords = 6, kUnits = 20;
  std::mt19937_64 random(2);
  PayloadRing ring(kRecords, kUnits);
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

TEST(PayloadClaims, CarryEveryRecordOfSeveralProducers) {
  constexpr std::uint64_t kProducers = 3, kEach = 4000;
  for (const auto& [records, units] : {Size{1, 8}, Size{7, 24}, Size{64, 100}}) {
    PayloadRing ring(records, units);
    // Plain: ThreadSanitizer checks the order.
    std::vector<std::uint64_t> payload(units), value_of(records), place_of(records);
    std::atomic<bool> lost{false};
    const auto wait = [&](echobuf::EventCount& event, std::uint32_t key) {
      const Deadline deadline = far_off();
      event.wait(key, deadline);
      if (Clock::now() >= deadline) lost = true;
    };
    const std::uint64_t largest = (units + 1) / 2;
    const auto size_of_value = [=](std::uint64_t value) {
      return value * 5 % (largest + 1);
    };
    Threads threads;
    for (std::uint64_t p = 0; p < kProducers; ++p)
      threads.start([&, p, units = units] {
        std::mt19937_64 random(p);
        std::uint64_t value = p * kEach;
        const std::uint64_t end = value + kEach;
        while (value < end && !lost) {
          const auto size_of = [&](std::uint64_t i) {
            return size_of_value(value + i);
          };
          const std::uint32_t key = ring.room().prepare();
          const Claim got = ring.claims().claim(std::min(1 + random() % 5, end - value),
                                                size_of, ring.term());
          if (got.count == 0) {
            if (!ring.claims().has_room(size_of(0))) wait(ring.room(), key);
            continue;
          }
          std::uint64_t place = got.place;
          for (std::uint64_t i = 0; i < got.count; ++i) {
            const std::uint64_t position = got.first + i;
            const std::uint64_t size = size_of_value(value + i);
            const std::uint64_t start = ring.claims().take(place, size);
            for (std::uint64_t u = 0; u < size; ++u)
              payload[start % units + u] = (value + i) * 10 + u;
            value_of[ring.slot(position)] = value + i;
            place_of[ring.slot(position)] = start;
            ring.claims().end_at(position, place);
          }
          value += got.count;
          ring.commit(got.first, got.count);
        }
      });
    std::vector<std::uint64_t> next(kProducers, 0);
    std::uint64_t read = 0, end = 0;
    while (read < kProducers * kEach && !lost) {
      ring.want(read);
      const std::uint32_t key = ring.filled().prepare();
      const std::uint64_t committed = ring.committed();
      if (committed == read) wait(ring.filled(), key);
      for (; read < committed; ++read) {
        const std::uint64_t value = value_of[ring.slot(read)];
        const std::uint64_t place = place_of[ring.slot(read)];
        ASSERT_EQ(value % kEach, next[value / kEach]++)
            << "each producer's in order, once";
        ASSERT_GE(place, end) << "places are in the order of positions";
        end = place + size_of_value(value);
        for (std::uint64_t u = 0; u < size_of_value(value); ++u)
          ASSERT_EQ(payload[place % units + u], value * 10 + u);
      }
      ring.release(read);
    }
    threads.join();
    EXPECT_FALSE(lost) << "a wake-up was lost";
    EXPECT_EQ(ring.tail(), kProducers * kEach);
  }
}

TEST(PayloadClaims, LetNoneThroughAfterClose) {
  for (int round = 0; round < 200; ++round) {
    PayloadRing ring(1 << 10, 1 << 12);
    const std::uint64_t term = ring.term();
    Threads threads;
    for (std::uint64_t p = 0; p < 2; ++p)
      threads.start([&, p] {
        for (;;) {
          const auto size_of = [&](std::uint64_t) { return p + 2; };
          const Claim got = ring.claims().claim(1, size_of, term);
          if (got.count == 0) return;
          ring.commit(got.first, got.count);
        }
      });
    ring.close();
    const std::uint64_t tail = ring.tail();
    threads.join();
    ASSERT_EQ(ring.tail(), tail);
    ASSERT_EQ(ring.committed(), tail);
  }
}

}  // namespace
