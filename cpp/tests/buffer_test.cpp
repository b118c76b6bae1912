#include "echobuf/buffer/buffer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

TEST(Buffer, LeavesBatchesAloneThatTheCallerHolds) {
  BufferOptions options = numbered(8, 4, {2, 1});
  auto buffer = std::make_unique<Buffer>(options);
  put_what_fits(*buffer, 0, 12);
  std::vector<Batch> held(4);
  std::vector<Ids> before;
  for (Batch& batch : held) {
    ASSERT_EQ(buffer->next(batch, far_off()), Status::kOk);
    before.push_back(ids_of(batch));
  }
  std::memset(held[0].block.data(), 0, 32);
  serve(*buffer, 40, 12);
  buffer->reset(1);
  serve(*buffer, 40);
  buffer.reset();
  for (std::size_t i = 1; i < held.size(); ++i) EXPECT_EQ(ids_of(held[i]), before[i]);
}

TEST(Buffer, CountsWhatWasPutWhenCutShort) {
  const BufferOptions options = numbered(8, 4, {2, 1});
  {
    Buffer buffer(options);
    const Ids ids = range(0, 100);
    const SourceLeaf leaf = leaf_of(ids);
    std::uint64_t done = 0;
    const Deadline soon = Clock::now() + std::chrono::milliseconds(5);
    EXPECT_EQ(buffer.put(buffer.term(), &leaf, 100, 0, done, soon, nullptr),
              Status::kTimeout);
    EXPECT_EQ(done, 12u) << "the ring's capacity";
    EXPECT_EQ(done, buffer.stats().fresh);
  }
  for (int round = 0; round < 200; ++round) {
    Buffer buffer(options);
    const Ids ids = range(0, 100);
    const SourceLeaf leaf = leaf_of(ids);
    std::uint64_t done = 0;
    Status status = Status::kOk;
    Threads producer;
    producer.start([&] {
      status = buffer.put(buffer.term(), &leaf, 100, 0, done, far_off(), nullptr);
    });
    Ids batch;
    for (int i = 0; i < round % 4; ++i) ASSERT_EQ(next(buffer, batch), Status::kOk);
    buffer.close();
    producer.join();
    ASSERT_EQ(status, Status::kClosed);
    ASSERT_EQ(done, buffer.stats().fresh);
    std::uint64_t drawn = static_cast<std::uint64_t>(round % 4) * 4;
    while (next(buffer, batch) == Status::kOk) drawn += batch.size();
    ASSERT_EQ(drawn, 2 * done) << "those that were put are served";
  }
}

TEST(Buffer, HoldsNoMoreThanWasPutWhileMoreIsPut) {
  constexpr std::uint64_t kExamples = 4000;
  Buffer buffer(numbered(kExamples, 1, {1, 1}));
  for (std::uint64_t round = 1; round <= 30; ++round) {
    Threads producer;
    producer.start([&] {
      for (std::uint64_t i = 0; i < kExamples; ++i) put_what_fits(buffer, i, i + 1);
    });
    BufferStats stats;
    while (stats.fresh < kExamples) {
      stats = buffer.stats();
      ASSERT_LE(stats.resident, stats.fresh) << "round " << round;
    }
    producer.join();
    buffer.reset(round);
  }
}

}  // namespace
