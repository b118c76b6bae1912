// Claims of payload by several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "echobuf/store/claims.hpp"
#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace {

using echobuf::Claims;
using echobuf::Clock;
using echobuf::Deadline;
using echobuf::Ring;
using echobuf::test::far_off;
using echobuf::test::Threads;
using Claim = Claims::Claim;

TEST(Claims, CarryEveryRecordOfSeveralProducers) {
  constexpr std::uint64_t kProducers = 3, kEach = 4000;
  using Size = std::pair<std::uint64_t, std::uint64_t>;
  for (const auto& [records, units] : {Size{1, 8}, Size{7, 24}, Size{64, 100}}) {
    Ring ring({.capacity = records, .units = units});
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
          const std::uint32_t key = ring.room().prepare();
          const std::uint64_t want = std::min(1 + random() % 5, end - value);
          std::uint64_t sizes[5];
          for (std::uint64_t i = 0; i < want; ++i) sizes[i] = size_of_value(value + i);
          const Claim got = ring.claim(want, ring.term(), sizes);
          if (got.count == 0) {
            if (!ring.has_room(sizes[0])) wait(ring.room(), key);
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

TEST(Claims, LetNoneThroughAfterClose) {
  for (int round = 0; round < 200; ++round) {
    Ring ring({.capacity = 1 << 10, .units = 1 << 12});
    const std::uint64_t term = ring.term();
    Threads threads;
    for (std::uint64_t p = 0; p < 2; ++p)
      threads.start([&, p] {
        for (;;) {
          const std::uint64_t size = p + 2;
          const Claim got = ring.claim(1, term, &size);
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
