#include "echobuf/schedule/auto_schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using echobuf::AutoSchedule;

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
