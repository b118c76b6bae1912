// Seats of jobs, over a header alone: no ring, no thread.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "echobuf/shared/job_seats.hpp"
#include "echobuf/shared/ring_header.hpp"

namespace {

using namespace echobuf::serve;  // NOLINT(google-build-using-namespace)

constexpr double kLong = 1e6;

class JobSeatsTest : public testing::Test {
 protected:
  /// Begins an epoch, as the one thread that does.
  bool begin(std::uint64_t jobs, std::uint64_t base) {
    const auto lock = seats_.lock();
    return seats_.begin_epoch(jobs, base);
  }
  std::uint64_t in_use() {
    const auto lock = seats_.lock();
    return seats_.in_use();
  }
  /// Ends the epoch at a position, all of it published.
  void end(std::uint64_t position) {
    const auto lock = seats_.lock();
    header_.published = position;
    header_.ends[header_.ended % RingHeader::kEnds] = position;
    header_.ended = header_.ended + 1;
  }

  RingHeader header_;
  JobSeats seats_{header_, kLong};
};

TEST_F(JobSeatsTest, EachSeatIsTakenOnceAndByAnotherHolderOnceItWasLeft) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> taken;
  for (std::uint64_t i = 0; i < RingHeader::kSeats; ++i) {
    const auto seat = seats_.take();
    ASSERT_TRUE(seat);
    EXPECT_TRUE(seats_.holds(seat->first, seat->second));
    EXPECT_TRUE(taken.insert(*seat).second);
  }
  EXPECT_EQ(seats_.take(), std::nullopt);
  EXPECT_EQ(seats_.reports().size(), RingHeader::kSeats);

  const auto [number, holder] = *taken.begin();
  seats_.leave(number, holder + 1);  // not its holder
  EXPECT_TRUE(seats_.holds(number, holder));
  seats_.leave(number, holder);
  EXPECT_FALSE(seats_.holds(number, holder));
  const auto again = seats_.take();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->first, number);
  EXPECT_NE(again->second, holder);
  EXPECT_FALSE(seats_.holds(number, holder));
  EXPECT_FALSE(seats_.holds(RingHeader::kSeats, 0));
}

TEST_F(JobSeatsTest, AnEpochBeginsForAllJobsOnceEnoughAreThere) {
  EXPECT_FALSE(begin(0, 0));  // never without a job
  ASSERT_TRUE(seats_.take());
  EXPECT_FALSE(begin(2, 0));
  EXPECT_TRUE(seats_.reports()[0].waiting);
  ASSERT_TRUE(seats_.take());
  EXPECT_TRUE(begin(2, 0));
  for (const JobReport& job : seats_.reports()) {
    EXPECT_FALSE(job.waiting);
    EXPECT_EQ(job.epoch, 0u);
  }
  EXPECT_EQ(header_.begun, 1u);
}

TEST_F(JobSeatsTest, TheLowestPositionThatAJobStillReadsIsInUse) {
  header_.published = 5;
  EXPECT_EQ(in_use(), 5u);
  const auto first = *seats_.take();
  EXPECT_EQ(in_use(), 5u) << "a job that waits reads nothing";
  const auto second = *seats_.take();
  ASSERT_TRUE(begin(2, 5));
  header_.published = 20;
  EXPECT_EQ(in_use(), 5u);
  header_.seats[first.first].released = 12;
  EXPECT_EQ(in_use(), 5u);
  header_.seats[second.first].released = 9;
  EXPECT_EQ(in_use(), 9u);
  EXPECT_EQ(seats_.reports()[first.first].held, 8u);
  EXPECT_EQ(seats_.reports()[second.first].held, 11u);

  header_.seats[second.first].left = 1;  // the epoch that goes on
  EXPECT_EQ(in_use(), 12u);
  header_.seats[first.first].left = 1;
  EXPECT_EQ(in_use(), 20u);
  end(25);
  EXPECT_EQ(in_use(), 25u) << "the next epoch begins there";
  seats_.leave(first.first, first.second);
  ASSERT_TRUE(begin(1, 25));
  header_.published = 30;
  EXPECT_EQ(in_use(), 25u);
  seats_.leave(second.first, second.second);
  EXPECT_EQ(in_use(), 30u);
}

TEST_F(JobSeatsTest, NoEpochBeginsWhileAJobIsTooFarBehind) {
  const auto slow = *seats_.take();
  std::uint64_t begun = 0;
  while (begin(1, begun) && begun < 2 * RingHeader::kEnds) end(++begun);
  EXPECT_EQ(begun, RingHeader::kEnds - 2);
  header_.seats[slow.first].left = 1;
  EXPECT_TRUE(begin(1, begun));
}

TEST_F(JobSeatsTest, ASeatIsFreedOnceItsLeaseIsOver) {
  const auto kept = *seats_.take();
  ASSERT_TRUE(begin(1, 0));
  {
    const auto lock = seats_.lock();
    EXPECT_TRUE(seats_.drop_silent()) << "its lease is long";
  }
  JobSeats impatient(header_, -1.0);  // any silence is too long
  const auto lock = impatient.lock();
  impatient.drop_silent();  // which hears the heartbeat for the first time
  impatient.drop_silent();
  EXPECT_FALSE(impatient.holds(kept.first, kept.second));
  EXPECT_FALSE(impatient.drop_silent());
}

}  // namespace
