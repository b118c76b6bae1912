// Draws on one stream need no event between them: which are recorded, and that each one
// that is needed is there.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "consumer.hpp"
#include "control.hpp"
#include "run.hpp"
#include "simulated/graphs.hpp"
#include "watched_calls.hpp"

namespace echobuf::test::elided {
namespace {

using cuda::Driver;
using cuda::EventHandle;
using cuda::kLegacyStream;
using cuda::kStreamNonBlocking;
using cuda::kSuccess;
using cuda::Result;
using cuda::StreamHandle;
using Calls = Driver::Calls;

std::atomic<int> records, waits;

/// Counts, too.
void counted(Calls& calls) {
  watch(calls);
  records = waits = 0;
  calls.event_record = [](EventHandle event, StreamHandle stream) {
    if (event == drawn) ++records;
    return real.event_record(event, stream);
  };
  calls.stream_wait_event = [](StreamHandle stream, EventHandle event, unsigned flags) {
    if (event == drawn && stream != upload) ++waits;
    return real.stream_wait_event(stream, event, flags);
  };
}

constexpr std::uint64_t kWords = 5;  // of small_plan's first field

/// Puts as many examples as there is room for at once.
void put(DeviceBuffer& buffer, std::uint64_t count) {
  const std::uint64_t values[kWords + 1] = {};
  const SourceLeaf leaves[] = {SourceLeaf::of(values, kWords),
                               SourceLeaf::of(values + kWords)};
  for (std::uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(buffer.put(leaves, Deadline::max()), Status::kOk);
}

/// Who draws from a buffer on streams that come and go.
class Draws {
 public:
  Draws(DeviceBuffer& buffer, const Driver& driver)
      : buffer_(buffer), driver_(driver), targets_(driver, buffer.layout()) {}

  StreamHandle stream(unsigned flags = kStreamNonBlocking) const {
    StreamHandle made = nullptr;
    driver_.stream_create(&made, flags);
    return made;
  }
  void destroy(StreamHandle stream) const { driver_.stream_destroy(stream); }

  /// Enqueues draws, and waits for none.
  void on(StreamHandle stream, int count) {
    for (int i = 0; i < count; ++i) {
      const auto leaves = targets_.take();
      Target target{leaves.data()};
      target.stream = stream;
      ASSERT_EQ(buffer_.next_into(target, Deadline::max()), Status::kOk);
    }
  }
  Targets& targets() { return targets_; }

 private:
  DeviceBuffer& buffer_;
  const Driver& driver_;
  Targets targets_;
};

/// Segments of 32 records, each drawn twice in batches of 4.
Plan plan(std::uint64_t seed) {
  Plan plan = small_plan();
  plan.options.window = 64;
  plan.seed = seed;
  plan.largest_delay_us = 200;
  return plan;
}

using Order = void (*)(DeviceBuffer& buffer, Draws& draws);

/// Runs it with some seeds; returns whether there was ever a report.
bool is_reported(Order order, Change change, std::string* what = nullptr,
                 int seeds = 20) {
  for (int seed = 0; seed < seeds; ++seed) {
    const Outcome outcome =
        with_device(plan(static_cast<std::uint64_t>(seed)), change,
                    [&](DeviceBuffer& buffer, const Driver& driver) {
                      Draws draws(buffer, driver);
                      order(buffer, draws);
                    });
    EXPECT_EQ(outcome.error, "");
    if (outcome.reports.empty()) continue;
    if (what) *what = outcome.reports[0];
    return true;
  }
  return false;
}

/// Nothing is reported, and something is if the change is made.
void expect_needed(Order order, Change change) {
  std::string what;
  EXPECT_FALSE(is_reported(order, counted, &what)) << what;
  EXPECT_TRUE(is_reported(order, change));
}

// ---- which are recorded

void on_one(DeviceBuffer& buffer, Draws& draws, StreamHandle stream) {
  put(buffer, 96);
  draws.on(stream, 32);  // until the first records are given back
  put(buffer, 32);
  draws.on(stream, 16);
}
void default_stream(DeviceBuffer& buffer, Draws& draws) {
  on_one(buffer, draws, nullptr);
}
void own_stream(DeviceBuffer& buffer, Draws& draws) {
  StreamHandle stream = draws.stream();
  on_one(buffer, draws, stream);
  draws.destroy(stream);
}

TEST(ElidedEvents, OnTheDefaultStreamOneIsRecordedWhereSlotsAreGivenBack) {
  EXPECT_FALSE(is_reported(default_stream, counted, nullptr, 1));
  EXPECT_EQ(waits, 1);  // the first draw's
  EXPECT_LE(records, 4);
  EXPECT_GE(records, 2);
}

TEST(ElidedEvents, TheDefaultStreamHasTwoNames) {
  const Order order = [](DeviceBuffer& buffer, Draws& draws) {
    put(buffer, 64);
    for (int i = 0; i < 6; ++i) draws.on(i % 2 ? kLegacyStream : nullptr, 1);
  };
  EXPECT_FALSE(is_reported(order, counted, nullptr, 1));
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(records, 1);  // at the end
}

TEST(ElidedEvents, OnAStreamThatMayGoNoDrawWaitsForAnother) {
  EXPECT_FALSE(is_reported(own_stream, counted, nullptr, 1));
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(records, 48);
}

TEST(ElidedEvents, ADriverThatDoesNotTellStreamsApartHasAllOfThem) {
  const Change old = [](Calls& calls) {
    counted(calls);
    calls.stream_id = nullptr;
  };
  EXPECT_FALSE(is_reported(own_stream, old, nullptr, 1));
  EXPECT_EQ(waits, 48);
  EXPECT_EQ(records, 48);
}

TEST(ElidedEvents, OneIsRecordedAfterThirtyTwoDraws) {
  Plan large = plan(0);
  large.options.window = 640;  // nothing is given back in 100 draws
  const Outcome outcome =
      with_device(large, counted, [&](DeviceBuffer& buffer, const Driver& driver) {
        Draws draws(buffer, driver);
        put(buffer, 640);
        draws.on(nullptr, 100);
      });
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
  EXPECT_EQ(records, 4);  // and one at the end
}

// ---- each that is needed

TEST(ElidedEvents, SlotsAreGivenBackBehindAllDrawsOfAStream) {
  expect_needed(default_stream, [](Calls& calls) {
    watch(calls);
    calls.event_record = [](EventHandle event, StreamHandle stream) {
      return event == drawn ? kSuccess : real.event_record(event, stream);
    };
  });
}

TEST(ElidedEvents, AnUploaderThatWaitsForRoomIsAwakenedBehindTheEvent) {
  const Order order = [](DeviceBuffer& buffer, Draws& draws) {
    put(buffer, 128);  // the window, a segment, and what waits for room in staging
    draws.on(nullptr, 32);
    draws.on(nullptr, 15);
  };
  expect_needed(order, [](Calls& calls) {
    watch(calls);
    calls.stream_wait_event = [](StreamHandle stream, EventHandle event, unsigned f) {
      return stream == upload ? kSuccess : real.stream_wait_event(stream, event, f);
    };
  });
}

void from_the_default_stream(DeviceBuffer& buffer, Draws& draws) {
  StreamHandle stream = draws.stream();
  put(buffer, 96);
  draws.on(nullptr, 10);
  draws.on(stream, 22);
  put(buffer, 32);
  draws.on(stream, 16);
  draws.destroy(stream);
}

TEST(ElidedEvents, TheDefaultStreamIsRecordedWhenAnotherComes) {
  expect_needed(from_the_default_stream, [](Calls& calls) {
    watch(calls);
    calls.event_record = [](EventHandle event, StreamHandle stream) {
      const bool left_out = event == drawn && stream == nullptr;
      return left_out ? kSuccess : real.event_record(event, stream);
    };
  });
}

TEST(ElidedEvents, AnotherStreamWaitsForTheDefaultStream) {
  expect_needed(from_the_default_stream, [](Calls& calls) {
    watch(calls);
    calls.stream_wait_event = [](StreamHandle stream, EventHandle event, unsigned f) {
      const bool left_out = event == drawn && stream != upload;
      return left_out ? kSuccess : real.stream_wait_event(stream, event, f);
    };
  });
}

void destroyed(DeviceBuffer& buffer, Draws& draws) {
  simulated::echobuf_simulated_reuse_handles(1);
  StreamHandle stream = draws.stream();
  StreamHandle first = stream;
  put(buffer, 96);
  draws.on(stream, 10);
  draws.destroy(stream);
  stream = draws.stream();
  EXPECT_EQ(stream, first);
  draws.on(stream, 22);
  put(buffer, 32);
  draws.on(stream, 16);
  draws.destroy(stream);
}

TEST(ElidedEvents, AStreamWithTheHandleOfOneThatIsGoneIsAnother) {
  expect_needed(destroyed, [](Calls& calls) {
    watch(calls);
    calls.stream_id = [](StreamHandle, unsigned long long* id) {
      *id = 1;
      return kSuccess;
    };
  });
  const Change old = [](Calls& calls) {
    counted(calls);
    calls.stream_id = nullptr;
  };
  std::string what;
  EXPECT_FALSE(is_reported(destroyed, old, &what)) << what;
}

void ended(DeviceBuffer& buffer, Draws& draws) {
  put(buffer, 64);
  draws.on(nullptr, 10);
}

void left(DeviceBuffer& buffer, Draws& draws) {
  ended(buffer, draws);
  buffer.reset(1);
  put(buffer, 96);
}

TEST(ElidedEvents, WhatTheDefaultStreamReadsIsWaitedForAtTheEnd) {
  const Change change = [](Calls& calls) {
    watch(calls);
    calls.event_record = [](EventHandle event, StreamHandle stream) {
      return event == drawn ? kSuccess : real.event_record(event, stream);
    };
  };
  expect_needed(ended, change);
  expect_needed(left, change);
}

TEST(ElidedEvents, ADrawWaitsForNoStream) {
  const Order order = [](DeviceBuffer& buffer, Draws& draws) {
    StreamHandle stream = draws.stream();
    StreamHandle other = draws.stream();
    put(buffer, 64);
    simulated::echobuf_simulated_hold(stream, 1);
    draws.on(stream, 3);
    draws.on(nullptr, 3);
    draws.on(other, 3);
    simulated::echobuf_simulated_hold(stream, 0);
    draws.destroy(stream);
    draws.destroy(other);
  };
  EXPECT_FALSE(is_reported(order, counted));
}

TEST(ElidedEvents, DrawsAndLaunchesOfGraphsTakeTurns) {
  const Order order = [](DeviceBuffer& buffer, Draws& draws) {
    StreamHandle stream = draws.stream();
    StreamHandle other = draws.stream();
    put(buffer, 96);
    {
      const CapturedDraw graph(buffer, draws.targets().take(), stream);
      for (int i = 0; i < 8; ++i) {
        draws.on(stream, 2);
        StreamHandle launched = i < 4 ? stream : other;
        ASSERT_EQ(buffer.before_replay(launched, Deadline::max()), Status::kOk);
        graph.enqueue(launched);
        if (i > 5) draws.on(other, 1);
      }
      put(buffer, 32);
      draws.on(stream, 8);
      simulated::echobuf_simulated_wait(nullptr);
    }
    draws.destroy(stream);
    draws.destroy(other);
  };
  std::string what;
  EXPECT_FALSE(is_reported(order, counted, &what)) << what;
}

TEST(ElidedEvents, ACaptureThatForbidsTheRecordGoesOnAndLosesNothing) {
  const Order order = [](DeviceBuffer& buffer, Draws& draws) {
    StreamHandle stream = draws.stream();
    StreamHandle captured = draws.stream(0);  // which the default stream waits for
    put(buffer, 64);
    draws.on(nullptr, 2);
    const auto leaves = draws.targets().take();
    Target target{leaves.data()};
    target.stream = stream;
    simulated::GraphHandle graph = nullptr;
    ASSERT_EQ(simulated::cuStreamBeginCapture_v2(captured, 0), kSuccess);
    EXPECT_THROW(buffer.next_into(target, kAtOnce), cuda::Error);
    EXPECT_THROW(buffer.reset(1), cuda::Error);
    ASSERT_EQ(simulated::cuStreamEndCapture(captured, &graph), kSuccess);
    simulated::cuGraphDestroy(graph);
    EXPECT_EQ(buffer.stats().served, 8u);
    draws.on(stream, 2);
    EXPECT_EQ(buffer.stats().served, 16u);
    draws.destroy(captured);
    draws.destroy(stream);
  };
  std::string what;
  EXPECT_FALSE(is_reported(order, watch, &what, 1)) << what;
}

}  // namespace
}  // namespace echobuf::test::elided
