#include "echobuf/schedule/auto_schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::AutoSchedule;
using echobuf::Span;
using echobuf::UpstreamProgress;
using echobuf::test::Ids;
using Next = AutoSchedule::Next;

struct WindowShape {
  std::uint64_t window, batch_size;
  std::uint32_t max_factor;
};

const std::vector<WindowShape> kWindowShapes = {
    {1, 1, 1},      {1, 1, 8},       {2, 1, 3},   {3, 2, 8},    {5, 5, 2},
    {7, 3, 4},      {8, 8, 8},       {16, 1, 8},  {17, 2, 5},   {50, 3, 8},
    {64, 8, 8},     {64, 40, 8},     {100, 7, 3}, {255, 16, 8}, {256, 16, 1},
    {1000, 128, 8}, {1023, 1000, 20}};

/// Upstream and a ring around a schedule, and what promise 5 says at each pass's end.
class World {
 public:
  explicit World(const WindowShape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        schedule_(shape.window, shape.batch_size, shape.max_factor) {}

  /// Upstream delivers up to `want` records: what fits.
  void deliver(std::uint64_t want) {
    const std::uint64_t room = released_ + schedule_.capacity() - supply_.committed;
    supply_.held_back |= want > room;
    supply_.committed += std::min(want, room);
    uses_.resize(supply_.committed, 0);
  }
  void end() { supply_.ended = true; }

  /// A pass ends, or is waited for: checks what the schedule makes of it.
  Next advance() {
    const Span before = schedule_.span();
    const Next next = schedule_.advance(supply_);
    supply_.held_back = false;
    const Span now = schedule_.span();
    const bool began = begun_;
    begun_ |= next == Next::kPass;
    switch (next) {
      case Next::kPass:
        check_pass(before, now, began);
        break;
      case Next::kWait:
        check_wait(before, began);
        break;
      case Next::kFinished:
        EXPECT_TRUE(supply_.ended);
        for (const std::uint64_t uses : uses_) EXPECT_GE(uses, 1u) << "never served";
    }
    EXPECT_LE(schedule_.oldest_record(), supply_.committed);
    EXPECT_GE(schedule_.oldest_record(), released_) << "was given back already";
    released_ = schedule_.oldest_record();
    return next;
  }

  const AutoSchedule& schedule() const { return schedule_; }
  std::mt19937_64& random() { return random_; }
  std::uint64_t draws() const { return draws_; }
  std::uint64_t fresh() const { return supply_.committed; }
  bool held_back() const { return supply_.held_back; }

 private:
  std::uint64_t first_needed() const {
    return std::max((shape_.window + 3) / 4, shape_.batch_size);
  }

  void check_pass(const Span& before, const Span& now, bool began) {
    ASSERT_GT(now.count, 0u);
    EXPECT_LE(now.count, shape_.window);
    EXPECT_LE(now.end(), supply_.committed) << "sweeps what is not there";
    EXPECT_GE(now.first, released_) << "sweeps what was given back";
    if (!began) {
      EXPECT_TRUE(supply_.committed >= first_needed() || supply_.ended);
      EXPECT_EQ(now.first, 0u);
    }
    EXPECT_LE(now.first, served_) << "left out";
    if (began && now.end() == before.end()) {
      EXPECT_FALSE(supply_.ended) << "echoes after the end";
      // A filled segment was ready to take the place of the oldest.
      EXPECT_LT(supply_.committed, schedule_.segment_start(schedule_.state().hi + 1));
    }
    if (began && supply_.ended) {
      EXPECT_EQ(now.first, served_) << "served before";
    }
    for (std::uint64_t r = now.first; r < now.end(); ++r)
      EXPECT_LE(++uses_[r], shape_.max_factor);
    served_ = std::max(served_, now.end());
    draws_ += now.count;
  }

  void check_wait(const Span& before, bool began) {
    EXPECT_FALSE(supply_.ended);
    EXPECT_GT(schedule_.need(), supply_.committed) << "waits for what is there";
    EXPECT_LE(schedule_.need() - schedule_.oldest_record(), schedule_.capacity())
        << "waits for what can never come";
    if (!began) {
      EXPECT_EQ(schedule_.need(), first_needed());
      return;
    }
    for (std::uint64_t r = before.first; r < before.end(); ++r)
      EXPECT_EQ(uses_[r], shape_.max_factor) << "could still be echoed";
  }

  WindowShape shape_;
  std::mt19937_64 random_;
  AutoSchedule schedule_;
  UpstreamProgress supply_;
  Ids uses_;
  std::uint64_t released_ = 0;
  std::uint64_t served_ = 0;
  std::uint64_t draws_ = 0;
  bool begun_ = false;
};

TEST(AutoSchedule, KeepsItsPromisesWhateverUpstreamDelivers) {
  for (const WindowShape& shape : kWindowShapes)
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE(testing::Message() << "window " << shape.window << " batch "
                                      << shape.batch_size << " seed " << seed);
      World world(shape, seed);
      const std::uint64_t rate = 1 + shape.window * (seed % 6) / 3;
      for (int pass = 0; pass < 150; ++pass) {
        world.deliver(world.random()() % (2 * rate));
        ASSERT_NE(world.advance(), Next::kFinished);
        if (testing::Test::HasFailure()) return;
      }
      world.end();
      while (world.advance() != Next::kFinished)
        if (testing::Test::HasFailure()) return;
      if (testing::Test::HasFailure()) return;
    }
}

TEST(AutoSchedule, ServesAllOfAShortUpstreamOnce) {
  for (const WindowShape& shape : kWindowShapes)
    for (std::uint64_t n = 0; n <= shape.window; n += 1 + shape.window / 13) {
      World world(shape, 0);
      world.deliver(n);
      world.end();
      while (world.advance() != Next::kFinished) ASSERT_FALSE(HasFailure());
      EXPECT_EQ(world.draws(), n);
    }
}

TEST(AutoSchedule, ReachesOneUseEachWhenUpstreamIsFaster) {
  World world({1024, 32, 8}, 0);
  for (int pass = 0; pass < 200; ++pass) {
    world.deliver(1 << 20);
    world.advance();
  }
  const double factor =
      static_cast<double>(world.draws()) / static_cast<double>(world.fresh());
  EXPECT_NEAR(factor, 1.0, 0.05);
}

TEST(AutoSchedule, GrowsBackAtOnceWhenUpstreamSlowsDown) {
  World world({1024, 32, 8}, 0);
  const auto segments = world.schedule().segments();
  EXPECT_EQ(world.schedule().state().limit, segments / 2);
  for (int pass = 0; pass < 50; ++pass) {
    world.deliver(1 << 20);
    world.advance();
  }
  EXPECT_EQ(world.schedule().state().limit, segments / 2);
  // All that was held back is delivered by now: nothing comes in this pass.
  world.advance();
  world.advance();
  EXPECT_EQ(world.schedule().state().limit, segments);
}

TEST(AutoSchedule, NeverHoldsASteadyUpstreamBackAndSettlesAtItsRate) {
  for (std::uint64_t rate = 1; rate <= 8; ++rate) {
    SCOPED_TRACE(testing::Message() << "R " << rate);
    World world({1024, 32, 8}, 0);
    world.deliver(256);
    std::uint64_t draws = 0, fresh = 0;  // once it has settled
    for (int pass = 0; pass < 400; ++pass) {
      ASSERT_EQ(world.advance(), Next::kPass);
      // Upstream makes these while the pass lasts.
      world.deliver(256 + world.draws() / rate - world.fresh());
      ASSERT_FALSE(world.held_back());
      if (pass == 100) {
        draws = world.draws();
        fresh = world.fresh();
      }
    }
    EXPECT_NEAR(static_cast<double>(world.draws() - draws) /
                    static_cast<double>(world.fresh() - fresh),
                static_cast<double>(rate), 0.01 * static_cast<double>(rate));
    // And it keeps no more of the ring free than that takes, and two segments.
    const std::uint64_t segments = world.schedule().segments();
    EXPECT_GE(world.schedule().state().limit * (rate + 1), (segments - 2) * rate);
  }
}

TEST(AutoSchedule, GoesOnFromItsState) {
  const WindowShape shape{100, 7, 3};
  std::mt19937_64 random(1);
  AutoSchedule one(shape.window, shape.batch_size, shape.max_factor);
  UpstreamProgress progress;
  for (int pass = 0; pass < 300; ++pass) {
    AutoSchedule two(shape.window, shape.batch_size, shape.max_factor);
    two.restore(one.state());
    const std::uint64_t free =
        one.oldest_record() + one.capacity() - progress.committed;
    progress.committed += std::min(free, random() % 60);
    progress.held_back = random() % 4 == 0;
    ASSERT_EQ(one.advance(progress), two.advance(progress));
    ASSERT_EQ(one.span().first, two.span().first);
    ASSERT_EQ(one.span().count, two.span().count);
    ASSERT_EQ(one.oldest_record(), two.oldest_record());
  }
}

TEST(AutoSchedule, LaysSegmentsWithoutGapsForLargeWindows) {
  constexpr std::uint64_t kWindow = 0x7FFFFFFF;
  const AutoSchedule schedule(kWindow, 1000, 8);
  const std::uint64_t largest = schedule.capacity() - kWindow;
  const std::uint64_t far = (std::uint64_t{1} << 40) / largest;
  for (const std::uint64_t from : {std::uint64_t{0}, far}) {
    for (std::uint64_t i = from; i < from + 50; ++i) {
      const std::uint64_t start = schedule.segment_start(i);
      ASSERT_GT(schedule.segment_start(i + 1), start);
      ASSERT_LE(schedule.segment_start(i + 1) - start, largest);
      ASSERT_LE(schedule.segment_start(i + schedule.segments()) - start, kWindow);
    }
  }
}

}  // namespace
