// Stream capture and graphs.
#include "graphs.hpp"

#include <array>
#include <thread>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

using Bytes = std::vector<unsigned char>;

class Graphs : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    make();
  }

  void make() {
    block_ = device_memory();
    stream_ = stream();
    event_ = event();
  }

  void TearDown() override {
    driver().stream_synchronize(stream_);
    free(block_);
    destroy(stream_);
    driver().event_destroy(event_);
    Simulated::TearDown();
  }

  void begin_capture(int mode = kCaptureGlobal) {
    ASSERT_EQ(cuStreamBeginCapture_v2(stream_, mode), cuda::kSuccess);
  }
  /// Ends the capture, and makes its graph executable.
  GraphExecHandle end_capture() {
    GraphHandle graph = nullptr;
    GraphExecHandle executable = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), cuda::kSuccess);
    EXPECT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), cuda::kSuccess);
    EXPECT_EQ(cuGraphDestroy(graph), cuda::kSuccess);
    return executable;
  }
  cuda::Result end_of_broken_capture() {
    GraphHandle graph = nullptr;
    const cuda::Result code = cuStreamEndCapture(stream_, &graph);
    EXPECT_EQ(graph, nullptr);
    return code;
  }
  int status() {
    int status = -1;
    driver().stream_capture_info(stream_, &status, nullptr);
    return status;
  }
  /// Returns the code of an event query in a thread with that capture mode.
  cuda::Result query_elsewhere(int mode) {
    cuda::Result code = -1;
    EventHandle other = event();
    std::thread([&] {
      cuda::Context context = nullptr;
      driver().primary_retain(&context, 0);
      driver().context_push(context);
      driver().thread_exchange_capture_mode(&mode);
      code = calls().event_query(other);
      driver().context_pop(nullptr);
      driver().primary_release(0);
    }).join();
    driver().event_destroy(other);
    return code;
  }

  Address block_ = 0;
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
};

TEST_F(Graphs, RunWhatWasCaptured) {
  fill(block_, kBlockBytes, 1, stream_);
  begin_capture();
  EXPECT_EQ(status(), cuda::kCaptureActive);
  add(block_, block_, kBlockBytes, stream_);
  add(block_, block_, kBlockBytes, stream_);
  GraphExecHandle graph = end_capture();
  EXPECT_EQ(status(), cuda::kCaptureNone);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuGraphLaunch(graph, stream_), cuda::kSuccess);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 7));
  EXPECT_EQ(cuGraphExecDestroy(graph), cuda::kSuccess);
}

TEST_F(Graphs, AreCheckedForRaces) {
  expect_reports();
  StreamHandle other = stream();
  begin_capture();
  fill(block_, kBlockBytes, 1, stream_);
  GraphExecHandle graph = end_capture();
  EXPECT_EQ(cuGraphLaunch(graph, stream_), cuda::kSuccess);
  EXPECT_EQ(cuGraphLaunch(graph, other), cuda::kSuccess);
  echobuf_simulated_wait(nullptr);
  EXPECT_EQ(found("race", {"`fill`"}), 1U);
  driver().stream_synchronize(other);
  destroy(other);
  cuGraphExecDestroy(graph);
  EXPECT_EQ(cuGraphLaunch(graph, stream_), cuda::kErrorInvalidValue);
  EXPECT_EQ(found("destroyed handle", {"cuGraphLaunch"}), 1U);
}

TEST_F(Graphs, TakeInOtherStreamsByEvents) {
  StreamHandle other = stream();
  EventHandle back = event();
  begin_capture();
  fill(block_, kBlockBytes, 1, stream_);
  driver().event_record(event_, stream_);
  driver().stream_wait_event(other, event_, 0U);
  add(block_, block_, kBlockBytes, other);
  driver().event_record(back, other);
  driver().stream_wait_event(stream_, back, 0U);
  GraphExecHandle graph = end_capture();
  EXPECT_EQ(cuGraphLaunch(graph, stream_), cuda::kSuccess);
  EXPECT_EQ(read(block_, kBlockBytes, stream_), Bytes(kBlockBytes, 2));
  cuGraphExecDestroy(graph);
  driver().event_destroy(back);
  destroy(other);
}

TEST_F(Graphs, OtherStreamsMustComeBack) {
  StreamHandle other = stream();
  begin_capture();
  driver().event_record(event_, stream_);
  driver().stream_wait_event(other, event_, 0U);
  fill(block_, kBlockBytes, 1, other);
  GraphHandle graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(other, &graph), kErrorCaptureUnmatched);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
  begin_capture();
  driver().event_record(event_, stream_);
  driver().stream_wait_event(other, event_, 0U);
  fill(block_, kBlockBytes, 1, other);
  EXPECT_EQ(end_of_broken_capture(), kErrorCaptureUnjoined);
  destroy(other);
}

TEST_F(Graphs, DoNotWaitForEventsOfOutside) {
  driver().event_record(event_, stream_);
  begin_capture();
  EXPECT_EQ(calls().stream_wait_event(stream_, event_, 0), kErrorCaptureIsolation);
  EXPECT_EQ(status(), cuda::kCaptureInvalidated);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, AreNotWaitedForWhileCaptured) {
  begin_capture();
  driver().event_record(event_, stream_);
  EXPECT_EQ(calls().event_query(event_), kErrorCapturedEvent);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
  begin_capture();
  EXPECT_EQ(calls().stream_synchronize(stream_), cuda::kErrorStreamCaptureUnsupported);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, TheLegacyStreamBreaksTheCaptureOfABlockingOne) {
  StreamHandle blocking = stream(0);
  ASSERT_EQ(cuStreamBeginCapture_v2(nullptr, kCaptureGlobal),
            cuda::kErrorStreamCaptureUnsupported);
  ASSERT_EQ(cuStreamBeginCapture_v2(blocking, kCaptureGlobal), cuda::kSuccess);
  int state = 0;
  EXPECT_EQ(calls().stream_capture_info(nullptr, &state, nullptr),
            cuda::kErrorStreamCaptureImplicit);
  EXPECT_EQ(calls().event_record(event_, nullptr), cuda::kErrorStreamCaptureImplicit);
  GraphHandle graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), cuda::kErrorStreamCaptureInvalidated);
  destroy(blocking);
}

TEST_F(Graphs, OneThreadsCallsBreakAnothersGlobalCapture) {
  begin_capture(kCaptureGlobal);
  EXPECT_EQ(query_elsewhere(cuda::kCaptureRelaxed), cuda::kSuccess);
  EXPECT_EQ(query_elsewhere(kCaptureThreadLocal), cuda::kSuccess);
  EXPECT_EQ(status(), cuda::kCaptureActive);
  EXPECT_EQ(query_elsewhere(kCaptureGlobal), cuda::kErrorStreamCaptureUnsupported);
  EXPECT_EQ(status(), cuda::kCaptureInvalidated);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, OtherModesLeaveOtherThreadsAlone) {
  for (const int mode : {kCaptureThreadLocal, cuda::kCaptureRelaxed}) {
    begin_capture(mode);
    EXPECT_EQ(query_elsewhere(kCaptureGlobal), cuda::kSuccess);
    cuGraphExecDestroy(end_capture());
  }
}

TEST_F(Graphs, AThreadsOwnCallsBreakItsCapture) {
  begin_capture(kCaptureThreadLocal);
  Address address = 0;
  EXPECT_EQ(calls().memory_alloc(&address, 1), cuda::kErrorStreamCaptureUnsupported);
  EXPECT_EQ(end_of_broken_capture(), cuda::kErrorStreamCaptureInvalidated);
  begin_capture(cuda::kCaptureRelaxed);
  free(device_memory());
  cuGraphExecDestroy(end_capture());
}

TEST_F(Graphs, ThatAreLeftAreReported) {
  expect_reports();
  begin_capture();
  end_capture();
  driver().stream_synchronize(stream_);
  free(block_);
  destroy(stream_);
  driver().event_destroy(event_);
  end();
  EXPECT_EQ(reports(), std::vector<std::string>{"leak: 1 graphs"});
  begin(1);
  make();
}

}  // namespace
}  // namespace echobuf::simulated::test
