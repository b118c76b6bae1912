// Streams, events and copies work in order, late, and as CUDA says.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "delays.hpp"
#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

using Bytes = std::vector<unsigned char>;

class Streams : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    block_ = device_memory();
    host_ = pinned_memory();
    stream_ = stream();
    event_ = event();
  }

  void TearDown() override {
    driver().stream_synchronize(stream_);
    free(block_);
    driver().host_free(static_cast<void*>(host_));
    destroy(stream_);
    driver().event_destroy(event_);
    Simulated::TearDown();
  }

  void upload(const void* from) {
    driver().copy_to_device(block_, from, kBlockBytes, stream_);
  }

  Address block_ = 0;
  unsigned char* host_ = nullptr;
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
};

TEST_F(Streams, RunInOrder) {
  for (unsigned char value = 1; value <= 100; ++value)
    fill(block_, kBlockBytes, value, stream_);
  for (int i = 0; i < 100; ++i) add(block_, block_, kBlockBytes, stream_);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 200));
}

TEST_F(Streams, CopyWithinADevice) {
  const Address to = device_memory();
  fill(block_, kBlockBytes, 9, stream_);
  driver().copy_on_device(to, block_, kBlockBytes, stream_);
  EXPECT_EQ(read(to, kBlockBytes, stream_), Bytes(kBlockBytes, 9));
  free(to);
}

TEST_F(Streams, PinnedMemoryIsReadWhenTheCopyRuns) {
  expect_reports();  // of the very mistake that it shows
  std::memset(host_, 1, kBlockBytes);
  echobuf_simulated_hold(stream_, 1);
  upload(host_);
  std::memset(host_, 2, kBlockBytes);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
  echobuf_simulated_hold(stream_, 0);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 2));
  EXPECT_EQ(found("race"), 1U);
}

TEST_F(Streams, PageableMemoryIsReadAtTheCall) {
  Bytes values(kBlockBytes, 1);
  echobuf_simulated_hold(stream_, 1);
  upload(values.data());
  std::fill(values.begin(), values.end(), static_cast<unsigned char>(2));
  echobuf_simulated_hold(stream_, 0);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 1));
}

TEST_F(Streams, PinnedMemoryIsWrittenWhenTheCopyRuns) {
  std::memset(host_, 1, kBlockBytes);
  echobuf_simulated_hold(stream_, 1);
  fill(block_, kBlockBytes, 2, stream_);
  driver().copy_to_host(static_cast<void*>(host_), block_, kBlockBytes, stream_);
  EXPECT_EQ(Bytes(host_, host_ + kBlockBytes), Bytes(kBlockBytes, 1));
  echobuf_simulated_hold(stream_, 0);
  driver().stream_synchronize(stream_);
  echobuf_simulated_host_access(host_, kBlockBytes, 0);
  EXPECT_EQ(Bytes(host_, host_ + kBlockBytes), Bytes(kBlockBytes, 2));
}

TEST_F(Streams, ArgumentsAreCopiedAtTheLaunch) {
  echobuf_simulated_hold(stream_, 1);
  {
    std::size_t bytes = kBlockBytes;
    unsigned char value = 3;
    Address to = block_;
    std::array<void*, 3> arguments{&to, &bytes, &value};
    driver().launch(fill_kernel(), 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream_,
                    arguments.data(), static_cast<void**>(nullptr));
    to = 0;
    bytes = 0;
    value = 4;
  }
  echobuf_simulated_hold(stream_, 0);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 3));
}

TEST_F(Streams, ALaunchTellsItsShape) {
  static Launch seen{};
  const FunctionHandle shape = echobuf_simulated_kernel(
      "shape", [](const Launch& launch, void* const*) { seen = launch; }, nullptr, 0);
  driver().launch(shape, 2U, 3U, 4U, 5U, 6U, 7U, 8U, stream_,
                  static_cast<void**>(nullptr), static_cast<void**>(nullptr));
  driver().stream_synchronize(stream_);
  EXPECT_EQ(seen.grid.x * 100 + seen.grid.y * 10 + seen.grid.z, 234U);
  EXPECT_EQ(seen.block.x * 100 + seen.block.y * 10 + seen.block.z, 567U);
  EXPECT_EQ(seen.shared_bytes, 8U);
}

TEST_F(Streams, AnEventIsDoneWithTheWorkBeforeIt) {
  EXPECT_EQ(calls().event_query(event_), cuda::kSuccess);  // never recorded
  driver().event_synchronize(event_);
  echobuf_simulated_hold(stream_, 1);
  fill(block_, kBlockBytes, 1, stream_);
  driver().event_record(event_, stream_);
  EXPECT_EQ(calls().event_query(event_), cuda::kErrorNotReady);
  echobuf_simulated_hold(stream_, 0);
  driver().event_synchronize(event_);
  EXPECT_EQ(calls().event_query(event_), cuda::kSuccess);
}

TEST_F(Streams, AWaitHoldsAStreamBack) {
  StreamHandle other = stream();
  echobuf_simulated_hold(stream_, 1);
  fill(block_, kBlockBytes, 1, stream_);
  driver().event_record(event_, stream_);
  driver().stream_wait_event(other, event_, 0U);
  add(block_, block_, kBlockBytes, other);
  EventHandle last = event();
  driver().event_record(last, other);
  EXPECT_EQ(calls().event_query(last), cuda::kErrorNotReady);
  echobuf_simulated_hold(stream_, 0);
  EXPECT_EQ(read(block_, kBlockBytes, other), Bytes(kBlockBytes, 2));
  driver().event_destroy(last);
  destroy(other);
}

TEST_F(Streams, AWaitForAnEventThatIsRecordedLaterIsNone) {
  StreamHandle other = stream();
  driver().stream_wait_event(other, event_, 0U);
  echobuf_simulated_hold(stream_, 1);
  driver().event_record(event_, stream_);
  driver().stream_synchronize(other);  // returns
  echobuf_simulated_hold(stream_, 0);
  destroy(other);
}

TEST_F(Streams, ADestroyedStreamFinishes) {
  StreamHandle other = stream();
  for (int i = 0; i < 20; ++i)
    fill(block_, kBlockBytes, static_cast<unsigned char>(i), other);
  driver().event_record(event_, other);
  destroy(other);
  driver().stream_wait_event(stream_, event_, 0U);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 19));
}

TEST_F(Streams, AnEventMayBeDestroyedBeforeItIsReached) {
  EventHandle passing = event();
  StreamHandle other = stream();
  echobuf_simulated_hold(stream_, 1);
  fill(block_, kBlockBytes, 5, stream_);
  driver().event_record(passing, stream_);
  driver().stream_wait_event(other, passing, 0U);
  driver().event_destroy(passing);
  echobuf_simulated_hold(stream_, 0);
  EXPECT_EQ(read(block_, kBlockBytes, other), Bytes(kBlockBytes, 5));
  destroy(other);
}

TEST_F(Streams, ASynchronisedLegacyStreamWaitsForBlockingOnes) {
  StreamHandle blocking = stream(0);
  fill(block_, kBlockBytes, 6, blocking);
  driver().copy_to_host(static_cast<void*>(host_), block_, kBlockBytes, blocking);
  driver().stream_synchronize(nullptr);
  echobuf_simulated_host_access(host_, kBlockBytes, 0);
  EXPECT_EQ(Bytes(host_, host_ + kBlockBytes), Bytes(kBlockBytes, 6));
  destroy(blocking);
}

TEST_F(Streams, AFullQueueMakesALaunchWait) {
  constexpr unsigned kLaunches = 1500, kMost = 1024;
  std::atomic<unsigned> returned{0};
  echobuf_simulated_hold(stream_, 1);
  std::thread launches([&] {
    cuda::Context context = nullptr;
    driver().primary_retain(&context, 0);
    driver().context_push(context);
    for (unsigned i = 0; i < kLaunches; ++i) {
      fill(block_, 1, static_cast<unsigned char>(i), stream_);
      ++returned;
    }
    driver().context_pop(nullptr);
    driver().primary_release(0);
  });
  while (echobuf_simulated_calls("cuLaunchKernel") <= kMost) std::this_thread::yield();
  EXPECT_LE(returned, kMost);
  // Other streams, and other calls, go on meanwhile.
  StreamHandle other = stream();
  driver().event_record(event_, other);
  driver().event_synchronize(event_);
  EXPECT_LE(returned, kMost);
  echobuf_simulated_hold(stream_, 0);
  launches.join();
  EXPECT_EQ(returned, kLaunches);
  EXPECT_EQ(read(block_, 1, stream_),
            Bytes(1, static_cast<unsigned char>(kLaunches - 1)));
  destroy(other);
}

TEST_F(Streams, FreshMemoryIsNotZero) {
  expect_reports();
  const Bytes fresh = read(block_, kBlockBytes, stream_);
  EXPECT_EQ(std::count(fresh.begin(), fresh.end(), 0), 0);
  EXPECT_EQ(found("unwritten memory"), 1U);
}

TEST_F(Streams, ServeThreadsSideBySide) {
  constexpr unsigned char kThreads = 4, kRounds = 25;
  const auto work = [this](unsigned char number) {
    cuda::Context context = nullptr;
    driver().primary_retain(&context, number % 2);
    driver().context_push(context);
    for (unsigned char round = 0; round < kRounds; ++round) {
      StreamHandle own = stream(round % 2);
      const Address memory = device_memory();
      fill(memory, kBlockBytes, number, cuda::kPerThreadStream);
      driver().stream_synchronize(cuda::kPerThreadStream);
      add(memory, memory, kBlockBytes, own);
      EXPECT_EQ(read(memory, 1, own), Bytes(1, number + 1));
      free(memory);
      destroy(own);
    }
    driver().context_pop(nullptr);
    driver().primary_release(number % 2);
  };
  std::vector<std::thread> threads;
  for (unsigned char number = 0; number < kThreads; ++number)
    threads.emplace_back(work, number);
  for (std::thread& thread : threads) thread.join();
}

TEST(Delays, AreThoseOfTheSeed) {
  constexpr unsigned kLargest = 100;
  std::size_t at_once = 0, differ = 0;
  for (std::uint64_t operation = 0; operation < 1000; ++operation) {
    const auto pause = delay(7, 1, operation, kLargest);
    EXPECT_EQ(pause, delay(7, 1, operation, kLargest));
    EXPECT_LE(pause.count(), kLargest);
    at_once += pause.count() == 0 ? 1 : 0;
    differ += pause != delay(8, 1, operation, kLargest) ? 1 : 0;
    differ += pause != delay(7, 2, operation, kLargest) ? 1 : 0;
  }
  EXPECT_GT(at_once, 400U);
  EXPECT_LT(at_once, 600U);
  EXPECT_GT(differ, 1000U);
}

}  // namespace
}  // namespace echobuf::simulated::test
