// Draws in CUDA graphs: what launches serve, and what they do where they serve nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "consumer.hpp"
#include "control.hpp"
#include "run.hpp"

namespace {

using echobuf::Deadline;
using echobuf::kAtOnce;
using echobuf::SourceLeaf;
using echobuf::Status;
using echobuf::Target;
using echobuf::cuda::Driver;
using echobuf::cuda::kSuccess;
using echobuf::cuda::Result;
using echobuf::cuda::StreamHandle;
using echobuf::test::BatchBytes;
using echobuf::test::CapturedDraw;
using echobuf::test::Consumer;
using echobuf::test::DeviceBuffer;
using echobuf::test::Plan;
using echobuf::test::small_plan;
using echobuf::test::Targets;
using echobuf::test::with_device;
namespace simulated = echobuf::simulated;

constexpr std::uint64_t kWords = 5;  // of small_plan's first field
constexpr Deadline kNoEnd = Deadline::max();

/// Puts an example whose words are all `id`.
Status put(DeviceBuffer& buffer, std::uint64_t id, Deadline deadline = kNoEnd) {
  std::uint64_t values[kWords + 1];
  std::fill(std::begin(values), std::end(values), id);
  const SourceLeaf leaves[] = {SourceLeaf::of(values, kWords),
                               SourceLeaf::of(values + kWords)};
  return buffer.put(leaves, deadline);
}

/// Examples 1, 2, ... `count`, and the end.
void put_all(DeviceBuffer& buffer, std::uint64_t count) {
  for (std::uint64_t id = 1; id <= count; ++id) put(buffer, id);
  buffer.close();
}

/// The examples of a batch in the block of a graph; 0 is none.
std::vector<std::uint64_t> ids(const CapturedDraw& graph) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < graph.count(); ++i) {
    std::uint64_t id = 0;
    std::memcpy(&id, graph.block() + i * kWords * sizeof id, sizeof id);
    ids.push_back(id);
  }
  return ids;
}

std::vector<std::byte*> clear(std::vector<std::byte*> leaves, DeviceBuffer& buffer) {
  std::memset(leaves[0], 0, buffer.layout().bytes());
  return leaves;
}

/// A buffer, who draws from it, and a graph of a draw on the first of two streams.
struct Bench {
  Bench(DeviceBuffer& buffer, const Driver& by)
      : driver(by),
        consumer(buffer, driver, 2),
        first(consumer.stream(0)),
        second(consumer.stream(1)),
        graph(buffer, clear(consumer.targets().take(), buffer), first) {}
  const Driver& driver;
  Consumer consumer;
  StreamHandle first, second;
  CapturedDraw graph;
};

using Script = void (*)(DeviceBuffer& buffer, Bench& bench);

/// Runs it on a small buffer; there is nothing to be reported.
void expect_clean(const Plan& plan, Script script) {
  const auto outcome =
      with_device(plan, nullptr, [&](DeviceBuffer& buffer, const Driver& driver) {
        Bench bench(buffer, driver);
        script(buffer, bench);
      });
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
}

TEST(Graph, CapturingUsesNothingUpAndWaitsForNothing) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    EXPECT_EQ(bench.graph.count(), 4u);  // before anything was put
    put_all(buffer, 12);
    const CapturedDraw another(buffer, bench.consumer.targets().take(), bench.second);
    EXPECT_EQ(another.count(), 4u);
    EXPECT_EQ(buffer.stats().served, 0u);
    bench.graph.launch(bench.first);
    EXPECT_EQ(ids(bench.graph), std::vector<std::uint64_t>(4, 0)) << "not yet planned";
    bench.driver.stream_synchronize(bench.first);  // nobody else waits for this one
    BatchBytes bytes;
    std::uint64_t batches = 0;
    while (bench.consumer.draw(bench.first, bytes) == Status::kOk) ++batches;
    EXPECT_EQ(batches, 6u);
  });
}

TEST(Graph, HasOneDrawOfABufferInACapture) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    const auto leaves = bench.consumer.targets().take();
    Target target{leaves.data()};
    target.stream = bench.first;
    ASSERT_EQ(simulated::cuStreamBeginCapture_v2(bench.first, 0), kSuccess);
    EXPECT_EQ(buffer.next_into(target, kAtOnce), Status::kOk);
    EXPECT_EQ(buffer.next_into(target, kAtOnce), Status::kTwice);
    EXPECT_EQ(buffer.before_replay(bench.first, kAtOnce), Status::kCapturing);
    EXPECT_EQ(buffer.before_replay(bench.second, kAtOnce), Status::kTimeout);
    simulated::GraphHandle graph = nullptr;
    ASSERT_EQ(simulated::cuStreamEndCapture(bench.first, &graph), kSuccess);
    simulated::cuGraphDestroy(graph);
  });
}

TEST(Graph, LeavesAShortLastBatchToNextInto) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    put_all(buffer, 5);  // 10 draws: two batches, and two records
    for (const StreamHandle stream : {bench.first, bench.second}) {
      ASSERT_EQ(buffer.before_replay(stream, kNoEnd), Status::kOk);
      bench.graph.launch(stream);
    }
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kFinished);
    EXPECT_EQ(buffer.stats().served, 8u);
    BatchBytes bytes;
    ASSERT_EQ(bench.consumer.draw(bench.first, bytes), Status::kOk);
    EXPECT_EQ(bytes.size(), 2 * (kWords + 1) * sizeof(std::uint64_t));
    EXPECT_EQ(bench.consumer.draw(bench.first, bytes), Status::kFinished);
    EXPECT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kFinished);
  });
}

TEST(Graph, DrawsTheSameBatchUntilTheNextCallAndThenNothing) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    put_all(buffer, 12);
    ASSERT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kOk);
    bench.graph.launch(bench.first);
    const auto batch = ids(bench.graph);
    bench.graph.launch(bench.first);
    EXPECT_EQ(ids(bench.graph), batch);
    EXPECT_EQ(buffer.stats().served, 4u);
    BatchBytes bytes;
    ASSERT_EQ(bench.consumer.draw(bench.first, bytes), Status::kOk);
    auto* block = const_cast<std::byte*>(bench.graph.block());
    std::memset(block, 0, kWords * sizeof(std::uint64_t));
    bench.graph.launch(bench.first);
    EXPECT_EQ(ids(bench.graph)[0], 0u) << "its slots may be others' by now";
    bench.driver.stream_synchronize(bench.first);  // nobody else waits for this one
  });
}

TEST(Graph, SkipsABatchThatIsNotLaunched) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    put_all(buffer, 12);
    for (int i = 0; i < 5; ++i)
      ASSERT_EQ(buffer.before_replay(bench.consumer.stream(i % 2), kNoEnd),
                Status::kOk);
    EXPECT_EQ(buffer.stats().served, 20u);
    BatchBytes bytes;
    EXPECT_EQ(bench.consumer.draw(bench.first, bytes), Status::kOk);
    EXPECT_EQ(bench.consumer.draw(bench.first, bytes), Status::kFinished);
  });
}

TEST(Graph, GivesBackTheSlotsOfTheLaunchBeforeEvenIfTheNextBatchIsNotThere) {
  Plan plan = small_plan();
  plan.options.batch_size = 6;  // a segment
  expect_clean(plan, [](DeviceBuffer& buffer, Bench& bench) {
    for (std::uint64_t id = 1; id <= 15; ++id) put(buffer, id);
    for (int i = 0; i < 3; ++i) {  // two passes
      ASSERT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kOk);
      bench.graph.launch(bench.first);
    }
    EXPECT_EQ(buffer.stats().resident, 15u);
    EXPECT_EQ(buffer.before_replay(bench.second, kAtOnce), Status::kTimeout);
    EXPECT_EQ(buffer.stats().resident, 9u);
    EXPECT_EQ(buffer.stats().served, 18u);
    for (std::uint64_t id = 16; id <= 18; ++id) put(buffer, id);
    buffer.close();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(buffer.before_replay(bench.second, kNoEnd), Status::kOk);
      bench.graph.launch(bench.second);
    }
    EXPECT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kFinished);
  });
}

TEST(Graph, ServesWhatAWaitHasCutOff) {
  Plan plan;
  plan.options = small_plan().options;
  plan.options.automatic = true;
  plan.options.max_factor = 1;
  plan.options.window = 20;
  plan.options.batch_size = 4;  // the first pass has 5 records
  plan.seed = plan.examples = 0;
  expect_clean(plan, [](DeviceBuffer& buffer, Bench& bench) {
    for (std::uint64_t id = 1; id <= 5; ++id) put(buffer, id);
    std::vector<std::uint64_t> all;
    const auto replay = [&](StreamHandle stream) {
      ASSERT_EQ(buffer.before_replay(stream, kNoEnd), Status::kOk);
      bench.graph.launch(stream);
      const auto batch = ids(bench.graph);
      all.insert(all.end(), batch.begin(), batch.end());
    };
    replay(bench.first);
    EXPECT_EQ(buffer.before_replay(bench.second, kAtOnce), Status::kTimeout);
    EXPECT_EQ(buffer.stats().resident, 0u) << "all of them may be written again";
    EXPECT_EQ(buffer.stats().served, 4u);
    for (std::uint64_t id = 6; id <= 24; ++id) put(buffer, id);
    buffer.close();
    for (int i = 0; i < 5; ++i) replay(bench.consumer.stream(i % 2));
    EXPECT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kFinished);
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> once(24);
    std::iota(once.begin(), once.end(), 1);
    EXPECT_EQ(all, once);
  });
}

TEST(Graph, MayStillRunWhenTheBufferIsResetOrGoes) {
  for (const bool down : {false, true}) {
    const auto outcome = with_device(
        small_plan(), nullptr, [down](DeviceBuffer& buffer, const Driver& driver) {
          StreamHandle stream = nullptr;  // outlives the buffer, as it must
          driver.stream_create(&stream, echobuf::cuda::kStreamNonBlocking);
          Targets targets(driver, buffer.layout());
          const CapturedDraw graph(buffer, targets.take(), stream);
          for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            if (epoch > 0) buffer.reset(epoch);
            put_all(buffer, 12);
            ASSERT_EQ(buffer.before_replay(stream, kNoEnd), Status::kOk);
            graph.enqueue(stream);
          }
          if (down) buffer.shut_down();
        });
    EXPECT_EQ(outcome.error, "");
    ASSERT_EQ(outcome.reports.size(), 1u);
    EXPECT_EQ(outcome.reports[0].rfind("leak: stream", 0), 0u) << outcome.reports[0];
  }
}

TEST(Graph, OfAStreamThatIsGoneLosesTheBufferAndNothingElse) {
  const auto outcome = with_device(
      small_plan(), nullptr, [](DeviceBuffer& buffer, const Driver& driver) {
        Bench bench(buffer, driver);
        StreamHandle gone = nullptr;
        driver.stream_create(&gone, echobuf::cuda::kStreamNonBlocking);
        put_all(buffer, 12);
        ASSERT_EQ(buffer.before_replay(gone, kNoEnd), Status::kOk);
        bench.graph.enqueue(gone);
        driver.stream_destroy(gone);
        BatchBytes bytes;
        EXPECT_THROW(bench.consumer.draw(bench.first, bytes), echobuf::cuda::Error);
        EXPECT_EQ(bench.consumer.draw(bench.first, bytes), Status::kBroken);
      });
  EXPECT_NE(outcome.error.find("INVALID_HANDLE"), std::string::npos) << outcome.error;
  EXPECT_FALSE(outcome.reports.empty());
  for (const std::string& report : outcome.reports)
    EXPECT_EQ(report.rfind("destroyed handle", 0), 0u) << report;
}

TEST(Graph, IsNotWaitedForWhileItsStreamIsCaptured) {
  expect_clean(small_plan(), [](DeviceBuffer& buffer, Bench& bench) {
    put_all(buffer, 12);
    ASSERT_EQ(buffer.before_replay(bench.first, kNoEnd), Status::kOk);
    bench.graph.launch(bench.first);
    ASSERT_EQ(simulated::cuStreamBeginCapture_v2(bench.first, 0), kSuccess);
    BatchBytes bytes;
    EXPECT_THROW(buffer.before_replay(bench.second, kAtOnce), echobuf::cuda::Error);
    EXPECT_THROW(buffer.reset(1), echobuf::cuda::Error);
    simulated::GraphHandle graph = nullptr;
    ASSERT_EQ(simulated::cuStreamEndCapture(bench.first, &graph), kSuccess);
    simulated::cuGraphDestroy(graph);
    EXPECT_EQ(buffer.before_replay(bench.second, kNoEnd), Status::kOk);
    EXPECT_EQ(buffer.reset(1), Status::kOk);
  });
}

TEST(Graph, OfAnotherThreadsOwnStreamIsWaitedForWithAllTheRest) {
  const auto outcome = with_device(
      small_plan(), nullptr, [](DeviceBuffer& buffer, const Driver& driver) {
        Bench bench(buffer, driver);
        const StreamHandle own = echobuf::cuda::kPerThreadStream;
        const auto replay = [&] {
          ASSERT_EQ(buffer.before_replay(own, kNoEnd), Status::kOk);
          bench.graph.enqueue(own);
        };
        put_all(buffer, 12);
        std::thread([&] {
          echobuf::cuda::Context context = nullptr;
          driver.primary_retain(&context, 0);
          driver.context_push(context);
          replay();
          driver.context_pop(&context);
          driver.primary_release(0);
        }).join();
        replay();
      });
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
}

/// Returns the result of a capture while uploads go on.
Result capture_beside_uploads(echobuf::test::Change change) {
  Result result = -1;
  with_device(small_plan(), change, [&](DeviceBuffer& buffer, const Driver& driver) {
    Consumer consumer(buffer, driver, 1);
    const StreamHandle stream = consumer.stream(0);
    const auto leaves = consumer.targets().take();
    Target target{leaves.data()};
    target.stream = stream;
    ASSERT_EQ(simulated::cuStreamBeginCapture_v2(stream, 0), kSuccess);
    EXPECT_EQ(buffer.next_into(target, kAtOnce), Status::kOk);
    // More than staging has room for: uploads have been seen to be done.
    for (std::uint64_t id = 1; id <= 20; ++id)
      if (put(buffer, id) != Status::kOk) break;
    simulated::GraphHandle graph = nullptr;
    result = simulated::cuStreamEndCapture(stream, &graph);
    if (graph) simulated::cuGraphDestroy(graph);
  });
  return result;
}

TEST(Graph, IsCapturedWhileUploadsGoOn) {
  EXPECT_EQ(capture_beside_uploads(nullptr), kSuccess);
  const auto strict = [](Driver::Calls& calls) {
    calls.thread_exchange_capture_mode = [](int*) { return kSuccess; };
  };
  EXPECT_EQ(capture_beside_uploads(strict),
            echobuf::cuda::kErrorStreamCaptureInvalidated);
}

}  // namespace
