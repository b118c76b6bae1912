// The race check: every edge that CUDA promises is there, and no other.
#include <cstring>
#include <thread>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

class Races : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    block_ = device_memory();
    host_ = pinned_memory();
    first_ = stream();
    second_ = stream();
    event_ = event();
  }

  void TearDown() override {
    driver().stream_synchronize(first_);
    driver().stream_synchronize(second_);
    free(block_);
    driver().host_free(static_cast<void*>(host_));
    destroy(first_);
    destroy(second_);
    driver().event_destroy(event_);
    Simulated::TearDown();
  }

  void fill(StreamHandle stream) { Simulated::fill(block_, kBlockBytes, 1, stream); }
  void upload(StreamHandle stream) {
    driver().copy_to_device(block_, static_cast<const void*>(host_), kBlockBytes,
                            stream);
  }
  void order(StreamHandle before, StreamHandle after) {
    driver().event_record(event_, before);
    driver().stream_wait_event(after, event_, 0U);
  }
  std::size_t races() {
    expect_reports();
    echobuf_simulated_wait(nullptr);
    return found("race");
  }

  Address block_ = 0;
  unsigned char* host_ = nullptr;
  StreamHandle first_ = nullptr, second_ = nullptr;
  EventHandle event_ = nullptr;
};

TEST_F(Races, TwoStreamsThatNothingOrders) {
  fill(first_);
  fill(second_);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"`fill`", "stream 1, operation 1", "stream 2, operation 1",
                           "device memory block 0", "[0, 1024)"}),
            1U);
}

TEST_F(Races, TheTimingDoesNotHideIt) {
  fill(first_);
  echobuf_simulated_wait(first_);
  fill(second_);
  EXPECT_EQ(races(), 1U);
}

TEST_F(Races, AnEventOrders) {
  fill(first_);
  order(first_, second_);
  fill(second_);
}

TEST_F(Races, AnEventRecordedBeforeTheWorkDoesNotOrder) {
  driver().event_record(event_, first_);
  fill(first_);
  driver().stream_wait_event(second_, event_, 0U);
  fill(second_);
  EXPECT_EQ(races(), 1U);
}

TEST_F(Races, AWaitBeforeTheRecordIsNoWait) {
  driver().stream_wait_event(second_, event_, 0U);
  fill(first_);
  driver().event_record(event_, first_);
  fill(second_);
  EXPECT_EQ(races(), 1U);
}

TEST_F(Races, AWaitIsForTheRecordOfItsTime) {
  fill(first_);
  order(first_, second_);
  driver().event_record(event_, second_);  // of another stream, later
  fill(second_);
}

TEST_F(Races, OrderGoesThroughAThirdStream) {
  StreamHandle third = stream();
  EventHandle other = event();
  fill(first_);
  order(first_, third);
  driver().event_record(other, third);
  driver().stream_wait_event(second_, other, 0U);
  fill(second_);
  driver().event_destroy(other);
  destroy(third);
}

TEST_F(Races, TwoReadsAreNone) {
  fill(first_);
  order(first_, second_);
  const Address to = device_memory(2 * kBlockBytes);
  add(to, block_, kBlockBytes, first_);
  add(to + kBlockBytes, block_, kBlockBytes, second_);
  driver().stream_synchronize(first_);
  driver().stream_synchronize(second_);
  free(to);
}

TEST_F(Races, AWriteAfterAReadIsOne) {
  const Address to = device_memory();
  add(to, block_, kBlockBytes, first_);
  fill(second_);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"`fill`", "`add`"}), 1U);
  free(to);
}

TEST_F(Races, ReadersOfSeveralStreamsAreAllKept) {
  const Address to = device_memory(2 * kBlockBytes);
  fill(first_);
  order(first_, second_);
  add(to, block_, kBlockBytes, first_);
  add(to + kBlockBytes, block_, kBlockBytes, second_);
  fill(second_);  // after its own read, and not after the other's
  EXPECT_EQ(races(), 1U);
  free(to);
}

TEST_F(Races, NeighboursDoNotMeet) {
  Simulated::fill(block_, 100, 1, first_);
  Simulated::fill(block_ + 100, 3, 1, second_);
  EXPECT_EQ(races(), 0U);
  Simulated::fill(block_ + 102, 1, 1, first_);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"[102, 103)"}), 1U);
}

TEST_F(Races, TheHostWritesWhatAnUploadStillReads) {
  upload(first_);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"the host", "cuMemcpyHtoDAsync", "pinned memory"}), 1U);
}

TEST_F(Races, TheHostWritesBeforeAnUpload) {
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
  upload(first_);
}

TEST_F(Races, WaitingForAnEventOrdersTheHost) {
  upload(first_);
  driver().event_record(event_, first_);
  driver().event_synchronize(event_);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
}

TEST_F(Races, AnEventThatIsDoneOrdersTheHost) {
  upload(first_);
  driver().event_record(event_, first_);
  while (calls().event_query(event_) == cuda::kErrorNotReady) std::this_thread::yield();
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
}

TEST_F(Races, WaitingForAStreamOrdersTheHost) {
  upload(first_);
  driver().stream_synchronize(first_);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
}

TEST_F(Races, WaitingForAnotherStreamDoesNot) {
  upload(first_);
  driver().stream_synchronize(second_);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
  EXPECT_EQ(races(), 1U);
}

TEST_F(Races, TheWaitForNumPyAddsNoEdge) {
  upload(first_);
  EXPECT_EQ(echobuf_simulated_wait(first_), cuda::kSuccess);
  echobuf_simulated_host_access(host_, kBlockBytes, 1);
  EXPECT_EQ(races(), 1U);
}

TEST_F(Races, ASynchronisedHostOrdersWhatItEnqueues) {
  fill(first_);
  driver().stream_synchronize(first_);
  fill(second_);
}

TEST_F(Races, FreeingMemoryThatIsInUse) {
  const Address to = device_memory();
  Simulated::fill(to, kBlockBytes, 1, first_);
  echobuf_simulated_wait(first_);
  free(to);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"the host", "frees", "`fill`"}), 1U);
}

TEST_F(Races, AnAllocatorOfArraysMayFreeWithoutOrder) {
  const Address to = device_memory();
  Simulated::fill(to, kBlockBytes, 1, first_);
  EXPECT_EQ(echobuf_simulated_free(to), cuda::kSuccess);
}

TEST_F(Races, MemoryFreedInTheOrderOfAStream) {
  const Address to = device_memory();
  Simulated::fill(to, kBlockBytes, 1, first_);
  EXPECT_EQ(echobuf_simulated_free_on(to, first_), cuda::kSuccess);
}

TEST_F(Races, MemoryFreedInTheOrderOfAnotherStream) {
  const Address to = device_memory();
  Simulated::fill(to, kBlockBytes, 1, first_);
  echobuf_simulated_wait(first_);
  EXPECT_EQ(echobuf_simulated_free_on(to, second_), cuda::kSuccess);
  EXPECT_EQ(races(), 1U);
  EXPECT_EQ(found("race", {"`free`", "frees", "`fill`"}), 1U);
}

TEST_F(Races, MemoryWhoseStreamIsGoneIsFreedAfterAllWork) {
  const Address to = device_memory();
  const StreamHandle gone = stream();
  Simulated::fill(to, kBlockBytes, 1, first_);
  destroy(gone);
  EXPECT_EQ(echobuf_simulated_free_on(to, gone), cuda::kSuccess);
}

TEST_F(Races, TheLegacyStreamOrdersBlockingStreams) {
  StreamHandle one = stream(0), other = stream(0);
  for (StreamHandle legacy : {StreamHandle{}, cuda::kLegacyStream}) {
    fill(legacy);
    fill(one);
    fill(legacy);
    fill(other);
    fill(legacy);
    fill(cuda::kPerThreadStream);
  }
  driver().stream_synchronize(cuda::kLegacyStream);
  destroy(one);
  destroy(other);
}

TEST_F(Races, TheLegacyStreamDoesNotOrderOthers) {
  fill(cuda::kLegacyStream);
  fill(first_);
  EXPECT_EQ(races(), 1U);
  driver().stream_synchronize(cuda::kLegacyStream);
}

TEST_F(Races, BlockingStreamsAreNotOrderedAmongThemselves) {
  StreamHandle one = stream(0), other = stream(0);
  fill(one);
  fill(other);
  EXPECT_EQ(races(), 1U);
  driver().stream_synchronize(cuda::kLegacyStream);
  destroy(one);
  destroy(other);
}

TEST_F(Races, EachThreadHasAStreamOfItsOwn) {
  fill(cuda::kPerThreadStream);
  std::thread([&] {
    cuda::Context context = nullptr;
    driver().primary_retain(&context, 0);
    driver().context_push(context);
    fill(cuda::kPerThreadStream);
    driver().stream_synchronize(cuda::kPerThreadStream);
    driver().context_pop(nullptr);
    driver().primary_release(0);
  }).join();
  EXPECT_EQ(races(), 1U);
  driver().stream_synchronize(cuda::kPerThreadStream);
}

}  // namespace
}  // namespace echobuf::simulated::test
