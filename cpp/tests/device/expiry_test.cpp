// Passes that leave out expired records on the device: by versions of records that are
// not uploaded yet, too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "consumer.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "run.hpp"

namespace {

using echobuf::Deadline;
using echobuf::SourceLeaf;
using echobuf::Status;
using echobuf::cuda::Driver;
using echobuf::cuda::StagedRing;
using echobuf::test::BatchBytes;
using echobuf::test::Consumer;
using echobuf::test::DeviceBuffer;
using echobuf::test::Plan;
using echobuf::test::with_device;

// ---- what was put, sent or not

void put(StagedRing& ring, std::uint64_t count) {
  const auto claim = ring.claim(count, ring.term());
  ASSERT_EQ(claim.count, count);
  ring.commit(claim.first, count);
}
void send(StagedRing& ring, std::uint64_t end) {
  ring.sent(end);
  ring.arrived(end);
}

TEST(StagedRing, KnowsWhatWasPutBeforeItIsSent) {
  StagedRing ring(4, 3);
  EXPECT_EQ(ring.put_end(), 0);
  put(ring, 2);
  EXPECT_EQ(ring.put_end(), 2);
  EXPECT_EQ(ring.extent().committed, 0);
  const auto late = ring.claim(1, ring.term());
  EXPECT_EQ(ring.put_end(), 2) << "claimed is not put";
  send(ring, 2);
  put(ring, 2);  // into the slots of the first two
  EXPECT_EQ(ring.put_end(), 2);
  ring.commit(late.first, 1);
  EXPECT_EQ(ring.put_end(), 5);
  EXPECT_EQ(ring.extent().committed, 2);
}

TEST(StagedRing, KnowsItAlsoWhereASlotHasBeenWrittenAgainMeanwhile) {
  StagedRing ring(8, 2);
  for (std::uint64_t end = 2; end <= 6; end += 2) {
    put(ring, 2);
    send(ring, end);
  }
  put(ring, 1);
  EXPECT_EQ(ring.put_end(), 7);
}

TEST(StagedRing, DoesNotCountWhatIsPutInTheNextTerm) {
  StagedRing ring(8, 6);
  put(ring, 2);
  ring.close();
  ring.reopen_ahead();
  put(ring, 3);
  EXPECT_EQ(ring.put_end(), 2);
  send(ring, 5);
  EXPECT_EQ(ring.put_end(), 2);
  ring.cross_border();
  EXPECT_EQ(ring.put_end(), 5);
}

// ---- expiry

using Ids = std::vector<std::uint64_t>;

/// Options for examples that are a number of eight bytes each.
echobuf::BufferOptions numbers(std::uint64_t window, echobuf::Ratio factor) {
  echobuf::BufferOptions options;
  options.fields = {{sizeof(std::uint64_t), 1}};
  options.window = window;
  options.batch_size = 4;
  options.factor = factor;
  options.seed = 7;
  return options;
}

Ids ids_of(const BatchBytes& bytes) {
  Ids ids(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

constexpr std::int64_t kStaleness = 2;

std::int64_t version_of(std::uint64_t id) { return static_cast<std::int64_t>(id / 5); }

void put_versions(DeviceBuffer& buffer, std::uint64_t count,
                  std::atomic<std::int64_t>& newest) {
  const std::uint64_t term = buffer.term();
  for (std::uint64_t id = 0; id < count; ++id) {
    const SourceLeaf leaf = SourceLeaf::of(&id);
    const std::int64_t version = version_of(id);
    std::uint64_t done = 0;
    if (buffer.put(term, &leaf, 1, 0, done, Deadline::max(), nullptr, &version) !=
        Status::kOk)
      break;
    newest.store(version);
  }
  buffer.close();
}

TEST(ExpiryOnDevice, DrawsNothingOlderThanAVersionThatWasPutAllows) {
  constexpr std::uint64_t kCount = 400;
  std::uint64_t drawn = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Plan plan{numbers(24, {3, 1}), kCount, seed};
    plan.options.max_staleness = kStaleness;
    const auto script = [&](DeviceBuffer& buffer, const Driver& driver) {
      std::atomic<std::int64_t> newest{-1};
      std::thread producer([&] { put_versions(buffer, kCount, newest); });
      Consumer consumer(buffer, driver, 2);
      for (;;) {
        const std::int64_t put_before = newest.load();
        BatchBytes bytes;
        if (consumer.draw(consumer.stream(drawn), bytes) != Status::kOk) break;
        for (const std::uint64_t id : ids_of(bytes)) {
          EXPECT_GE(version_of(id), put_before - kStaleness);
          ++drawn;
        }
      }
      producer.join();
    };
    const auto outcome = with_device(plan, nullptr, script);
    EXPECT_TRUE(outcome.reports.empty()) << outcome.reports.front();
    EXPECT_EQ(outcome.error, "");
  }
  EXPECT_GT(drawn, 0u);
}

}  // namespace
