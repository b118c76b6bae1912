#include "echobuf/store/ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::Clock;
using echobuf::Deadline;
using echobuf::Ring;
using echobuf::test::far_off;
using echobuf::test::Threads;

/// A model of the ring: a state a position, looked at one by one.
class Model {
 public:
  explicit Model(std::uint64_t capacity) : capacity_(capacity) {}

  std::uint64_t claim(std::uint64_t want) {
    const std::uint64_t count = std::min(want, released_ + capacity_ - tail());
    done_.resize(done_.size() + count, false);
    return count;
  }
  void commit(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t p = first; p < first + count; ++p) done_[p] = true;
  }
  void release(std::uint64_t position) { released_ = position; }

  std::uint64_t tail() const { return done_.size(); }
  std::uint64_t released() const { return released_; }
  std::uint64_t committed() const {
    const auto from = done_.begin() + static_cast<std::ptrdiff_t>(released_);
    return static_cast<std::uint64_t>(std::find(from, done_.end(), false) -
                                      done_.begin());
  }

 private:
  std::uint64_t capacity_;
  std::uint64_t released_ = 0;
  std::vector<bool> done_;
};

class RingOfCapacity : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Ring, RingOfCapacity, testing::Values(1, 2, 3, 5, 7, 16, 100));

TEST_P(RingOfCapacity, DoesWhatAModelDoes) {
  const std::uint64_t capacity = GetParam();
  std::mt19937_64 random(capacity);
  Ring ring(capacity);
  Model model(capacity);
  std::deque<Ring::Claim> open;
  for (int step = 0; step < 20000; ++step) {
    switch (random() % 3) {
      case 0: {
        const std::uint64_t want = random() % (capacity + 2);
        const std::uint64_t tail = model.tail();
        const Ring::Claim claim = ring.claim(want, ring.term());
        ASSERT_FALSE(claim.closed);
        ASSERT_EQ(claim.count, model.claim(want));
        if (claim.count == 0) break;
        ASSERT_EQ(claim.first, tail);
        open.push_back(claim);
        break;
      }
      case 1: {
        if (open.empty()) break;
        const auto any =
            open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
        ring.commit(any->first, any->count);
        model.commit(any->first, any->count);
        open.erase(any);
        break;
      }
      default: {
        const std::uint64_t held = model.committed() - model.released();
        model.release(model.released() + random() % (held + 1));
        ring.release(model.released());
      }
    }
    ASSERT_EQ(ring.tail(), model.tail());
    ASSERT_EQ(ring.committed(), model.committed());
    ASSERT_EQ(ring.released(), model.released());
    ASSERT_EQ(ring.has_room(), model.tail() < model.released() + capacity);
    if (ring.tail() > ring.committed()) {
      ASSERT_FALSE(ring.is_committed(ring.committed()));
    }
    if (ring.committed() > ring.released()) {
      ASSERT_TRUE(ring.is_committed(ring.committed() - 1));
    }
  }
  ASSERT_GT(ring.tail(), 10 * capacity) << "went around";
}

TEST_P(RingOfCapacity, CarriesEveryRecordOfSeveralProducers) {
  const std::uint64_t capacity = GetParam();
  constexpr std::uint64_t kProducers = 3, kEach = 3000;
  Ring ring(capacity);
  std::vector<std::uint64_t> slots(
      capacity);  // plain: ThreadSanitizer checks the order
  std::atomic<bool> lost{false};
  const auto wait = [&](echobuf::EventCount& event, std::uint32_t key) {
    const Deadline deadline = far_off();
    event.wait(key, deadline);
    if (Clock::now() >= deadline) lost = true;
  };
  Threads threads;
  for (std::uint64_t p = 0; p < kProducers; ++p)
    threads.start([&, p] {
      std::mt19937_64 random(p);
      std::uint64_t value = p * kEach;
      while (value < (p + 1) * kEach && !lost) {
        const std::uint64_t want = std::min(1 + random() % 7, (p + 1) * kEach - value);
        const std::uint32_t key = ring.room().prepare();
        const Ring::Claim claim = ring.claim(want, ring.term());
        if (claim.count == 0) wait(ring.room(), key);
        for (std::uint64_t i = 0; i < claim.count; ++i)
          slots[ring.slot(claim.first + i)] = value++;
        if (claim.count > 0) ring.commit(claim.first, claim.count);
      }
    });
  std::vector<std::uint64_t> next(kProducers, 0);
  std::uint64_t read = 0;
  while (read < kProducers * kEach && !lost) {
    ring.want(read);
    const std::uint32_t key = ring.filled().prepare();
    const std::uint64_t committed = ring.committed();
    if (committed == read) wait(ring.filled(), key);
    for (; read < committed; ++read) {
      const std::uint64_t value = slots[ring.slot(read)];
      ASSERT_EQ(value % kEach, next[value / kEach]++)
          << "each producer's in order, once";
    }
    ring.release(read);
  }
  threads.join();
  EXPECT_FALSE(lost) << "a wake-up was lost";
  EXPECT_EQ(ring.tail(), kProducers * kEach);
}

/// Notes what is given back.
class Noting final : public echobuf::SlotOwner {
 public:
  void return_slots(std::uint64_t position) override { given_back = position; }
  bool is_held() const override { return true; }
  std::uint64_t given_back = 0;
};

TEST_P(RingOfCapacity, PassesOverPositionsOfSlotsThatAreLent) {
  const std::uint64_t slots = GetParam();
  for (const std::uint64_t room : {std::uint64_t{1}, (slots + 1) / 2, slots}) {
    std::mt19937_64 random(slots + room);
    const auto slot_owner = std::make_shared<Noting>();
    const std::uint64_t first = random() % slots;
    const echobuf::BorrowedSlots borrowed{nullptr, slots, first, slot_owner};
    Ring ring(echobuf::RingShape::over(borrowed, room));
    ASSERT_EQ(ring.capacity(), slots);
    // Claims, and for each claimed position, less `first`, whether it is committed.
    std::vector<bool> done;
    std::deque<Ring::Claim> open;
    std::uint64_t released = first;
    slot_owner->given_back = first;
    for (int step = 0; step < 20000; ++step) {
      const std::uint64_t tail = first + done.size();
      switch (random() % 8) {
        case 0: {  // an epoch ends, and the next one lies further on
          ring.close();
          ASSERT_TRUE(ring.claim(1, ring.term()).closed);
          for (const Ring::Claim& claim : open) ring.commit(claim.first, claim.count);
          open.clear();
          const std::uint64_t count = random() % slots;
          ring.settle(tail);
          if (count > 0) ring.skip(count);
          done.assign(done.size() + count, true);
          ASSERT_EQ(ring.tail(), tail + count);
          ASSERT_TRUE(ring.claim(1, ring.term()).closed) << "whatever room there is";
          ring.settle(tail + count);
          ring.release(released = tail + count);
          ring.reopen();
          break;
        }
        case 1:
        case 2:
        case 3: {
          const std::uint64_t want = random() % (slots + 2);
          const Ring::Claim claim = ring.claim(want, ring.term());
          ASSERT_FALSE(claim.closed);
          ASSERT_EQ(claim.count, std::min(want, released + room - tail));
          if (claim.count == 0) break;
          ASSERT_EQ(claim.first, tail);
          done.resize(done.size() + claim.count, false);
          open.push_back(claim);
          break;
        }
        case 4:
        case 5: {
          if (open.empty()) break;
          const auto any =
              open.begin() + static_cast<std::ptrdiff_t>(random() % open.size());
          ring.commit(any->first, any->count);
          for (std::uint64_t i = 0; i < any->count; ++i)
            done[any->first - first + i] = true;
          open.erase(any);
          break;
        }
        default:
          released += random() % (ring.committed() - released + 1);
          ring.release(released);
      }
      const auto end =
          std::find(done.begin() + static_cast<std::ptrdiff_t>(released - first),
                    done.end(), false);
      ASSERT_EQ(ring.committed(),
                first + static_cast<std::uint64_t>(end - done.begin()));
      ASSERT_EQ(ring.tail(), first + done.size());
      ASSERT_EQ(ring.released(), released);
      ASSERT_EQ(slot_owner->given_back, released);
      ASSERT_EQ(ring.has_room(), ring.tail() < released + room);
    }
  }
}

TEST(Ring, GivesPartOfAClaimWhenNearlyFull) {
  Ring ring(5);
  EXPECT_EQ(ring.claim(3, ring.term()).count, 3u);
  EXPECT_FALSE(ring.held_back());
  EXPECT_EQ(ring.claim(2, ring.term()).count, 2u);
  EXPECT_FALSE(ring.held_back()) << "all that was wanted";
  ring.commit(0, 5);
  ring.release(ring.committed());
  EXPECT_EQ(ring.claim(6, ring.term()).count, 5u);
  EXPECT_TRUE(ring.held_back());
  ring.clear_held_back();
  EXPECT_FALSE(ring.held_back());
  EXPECT_EQ(ring.claim(1, ring.term()).count, 0u);
  EXPECT_TRUE(ring.held_back());
}

TEST(Ring, RefusesClaimsWhenClosed) {
  Ring ring(4);
  const std::uint64_t term = ring.term();
  const Ring::Claim before = ring.claim(2, term);
  ring.close();
  EXPECT_TRUE(ring.closed());
  EXPECT_TRUE(ring.claim(1, term).closed);
  EXPECT_TRUE(ring.claim(0, term).closed);
  ring.commit(before.first, before.count);
  EXPECT_EQ(ring.committed(), 2u) << "what was claimed before still comes";
  ring.close();
  EXPECT_TRUE(ring.closed()) << "twice is fine";
  EXPECT_EQ(ring.tail(), 2u);
}

TEST(Ring, KnowsPutsOfAnEarlierTerm) {
  Ring ring(4);
  const std::uint64_t old = ring.term();
  ring.claim(3, old);
  ring.commit(0, 3);
  ring.close();
  ring.release(ring.committed());
  ring.reopen();
  EXPECT_FALSE(ring.closed());
  EXPECT_NE(ring.term(), old);
  EXPECT_TRUE(ring.claim(1, old).closed);
  const Ring::Claim claim = ring.claim(4, ring.term());
  EXPECT_EQ(claim.first, 3u) << "positions go on";
  EXPECT_EQ(claim.count, 4u);
}

TEST(Ring, GoesThroughAllTermsWithoutTouchingThePositions) {
  Ring ring(2);
  ring.claim(1, ring.term());
  ring.commit(0, 1);
  ring.release(ring.committed());
  for (int i = 0; i < (1 << 15) + 3; ++i) {
    ring.close();
    ASSERT_TRUE(ring.closed());
    ring.reopen();
    ASSERT_FALSE(ring.closed());
    ASSERT_EQ(ring.tail(), 1u);
  }
}

TEST(Ring, LetsNoClaimThroughAfterClose) {
  for (int round = 0; round < 300; ++round) {
    Ring ring(1 << 12);
    const std::uint64_t term = ring.term();
    Threads threads;
    for (int p = 0; p < 2; ++p)
      threads.start([&] {
        for (;;) {
          const Ring::Claim claim = ring.claim(1, term);
          if (claim.count == 0) return;
          ring.commit(claim.first, claim.count);
        }
      });
    ring.close();
    const std::uint64_t tail = ring.tail();
    threads.join();
    ASSERT_EQ(ring.tail(), tail);
    ASSERT_EQ(ring.committed(), tail);
  }
}

TEST(Ring, OpensATermAheadOfTheConsumer) {
  Ring ring(4);
  const std::uint64_t term = ring.term();
  ring.commit(ring.claim(2, term).first, 2);
  EXPECT_EQ(ring.end(), std::nullopt);
  EXPECT_FALSE(ring.extent().closed);
  const Ring::Claim late = ring.claim(1, term);  // being written when the term ends
  ring.close();
  EXPECT_EQ(ring.end(), 3u);
  ring.reopen_ahead();
  EXPECT_TRUE(ring.opened_ahead());
  EXPECT_TRUE(ring.claim(1, term).closed);
  ring.commit(ring.claim(1, ring.term()).first, 1);
  EXPECT_EQ(ring.extent().committed, 2u);
  ring.commit(late.first, 1);
  for (int look = 0; look < 2; ++look) {
    EXPECT_EQ(ring.extent().committed, 3u) << "the consumer's term alone";
    EXPECT_EQ(ring.extent().tail, 3u);
    EXPECT_TRUE(ring.extent().closed);
    EXPECT_EQ(ring.end(), 3u);
    ring.close();  // of the term ahead
  }
  ring.release(3);
  ring.cross_border();
  EXPECT_EQ(ring.extent().committed, 4u);
  EXPECT_EQ(ring.end(), 4u);
  EXPECT_TRUE(ring.extent().closed);
}

}  // namespace
