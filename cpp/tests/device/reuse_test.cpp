// Passes that leave records out on the device: versions of records that are not
// uploaded yet, and losses that the device computes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "consumer.hpp"
#include "control.hpp"
#include "echobuf/cuda/loss_reports.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "run.hpp"

namespace {

using echobuf::Deadline;
using echobuf::SourceLeaf;
using echobuf::Status;
using echobuf::cuda::Address;
using echobuf::cuda::Driver;
using echobuf::cuda::LossType;
using echobuf::cuda::StagedRing;
using echobuf::cuda::StreamHandle;
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

TEST(ReuseOnDevice, DrawsNothingOlderThanAVersionThatWasPutAllows) {
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

// ---- losses

/// Memory of a device, freed when all work is done.
class Losses {
 public:
  explicit Losses(const Driver& driver, std::size_t bytes) : driver_(driver) {
    driver.memory_alloc(&address_, bytes);
  }
  ~Losses() { echobuf::simulated::echobuf_simulated_free(address_); }
  Losses(const Losses&) = delete;
  Losses& operator=(const Losses&) = delete;

  template <class T>
  Address write(const std::vector<T>& values, StreamHandle stream) {
    const std::size_t bytes = values.size() * sizeof(T);
    driver_.copy_to_device(address_ + end_, static_cast<const void*>(values.data()),
                           bytes, stream);
    end_ += (bytes + 15) / 16 * 16;
    return address_ + end_ - (bytes + 15) / 16 * 16;
  }

 private:
  const Driver& driver_;
  Address address_ = 0;
  Address end_ = 0;
};

float loss_of(std::uint64_t id) { return static_cast<float>(id * 7919 % 13); }

Plan reported_plan() {
  Plan plan{numbers(16, {6, 1}), 16, 3};
  plan.options.by_loss = true;
  plan.options.thin = 0.6;
  return plan;
}

/// All batches, where losses count two batches after they were reported.
std::vector<Ids> reported_on_host(const Plan& plan) {
  echobuf::Buffer buffer(plan.options);
  Ids ids(plan.examples);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const SourceLeaf leaf = SourceLeaf::of(ids.data());
  std::uint64_t done = 0;
  EXPECT_EQ(
      buffer.put(buffer.term(), &leaf, ids.size(), 0, done, Deadline::max(), nullptr),
      Status::kOk);
  buffer.close();
  std::vector<Ids> batches;
  for (echobuf::Batch batch; buffer.next(batch) == Status::kOk;) {
    if (!batches.empty())
      for (const std::uint64_t id : batches.back()) {
        const auto record = static_cast<std::int64_t>(id);
        const float loss = loss_of(id);
        EXPECT_TRUE(buffer.report(&record, &loss, 1));
      }
    const auto* const first = buffer.field<std::uint64_t>(batch, 0);
    batches.emplace_back(first, first + batch.count);
  }
  return batches;
}

/// The same on the device; `pieces`: reports of a batch.
std::vector<Ids> reported_on_device(DeviceBuffer& buffer, const Driver& driver,
                                    const Plan& plan, std::size_t pieces) {
  Ids ids(plan.examples);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const SourceLeaf leaf = SourceLeaf::of(ids.data());
  std::uint64_t done = 0;
  EXPECT_EQ(
      buffer.put(buffer.term(), &leaf, ids.size(), 0, done, Deadline::max(), nullptr),
      Status::kOk);
  buffer.close();
  Consumer consumer(buffer, driver, 2);
  Losses memory(driver, std::size_t{1} << 20);
  std::vector<Ids> batches;
  for (BatchBytes bytes;
       consumer.draw(consumer.stream(batches.size()), bytes) == Status::kOk;) {
    batches.push_back(ids_of(bytes));
    const Ids& batch = batches.back();
    StreamHandle const stream = consumer.stream(batches.size());
    const std::size_t each = (batch.size() + pieces - 1) / pieces;
    for (std::size_t first = 0; first < batch.size(); first += each) {
      const std::size_t end = std::min(first + each, batch.size());
      std::vector<std::int64_t> records;
      std::vector<double> losses;
      for (std::size_t i = first; i < end; ++i) {
        records.push_back(static_cast<std::int64_t>(batch[i]));
        losses.push_back(static_cast<double>(loss_of(batch[i])));
      }
      const Address of_records = memory.write(records, stream);
      const Address of_losses = memory.write(losses, stream);
      EXPECT_TRUE(buffer.backend().reports()->report(
          {of_records, of_losses, LossType::kDouble, records.size(), false}, stream));
    }
  }
  return batches;
}

TEST(ReuseOnDevice, CountsLossesFromTheSecondBatchAfterTheirReportOn) {
  const Plan plan = reported_plan();
  const std::vector<Ids> expected = reported_on_host(plan);
  ASSERT_LT(expected.size(), 24u) << "nothing was left out";
  for (const std::size_t pieces : {1, 4}) {
    std::vector<Ids> batches;
    const auto outcome =
        with_device(plan, nullptr, [&](DeviceBuffer& buffer, const Driver& driver) {
          batches = reported_on_device(buffer, driver, plan, pieces);
        });
    EXPECT_EQ(batches, expected);
    EXPECT_TRUE(outcome.reports.empty()) << outcome.reports.front();
    EXPECT_EQ(outcome.error, "");
  }
}

#ifndef __SANITIZE_THREAD__  // it is full of races, as it is meant to be
TEST(ReuseOnDevice, WaitsForLossesThatAreNotThere) {
  const Plan plan = reported_plan();
  const auto no_wait = [](Driver::Calls& calls) {
    calls.event_synchronize = [](echobuf::cuda::EventHandle) {
      return echobuf::cuda::kSuccess;
    };
  };
  const auto outcome =
      with_device(plan, no_wait, [&](DeviceBuffer& buffer, const Driver& driver) {
        reported_on_device(buffer, driver, plan, 1);
      });
  EXPECT_FALSE(outcome.reports.empty()) << "the check cannot fail";
}
#endif

TEST(ReuseOnDevice, KeepsReportsThatDoNotCountYetForAState) {
  const Plan plan = reported_plan();
  const auto outcome =
      with_device(plan, nullptr, [&](DeviceBuffer& buffer, const Driver& driver) {
        auto& reports = *buffer.backend().reports();
        StreamHandle stream = nullptr;
        driver.stream_create(&stream, echobuf::cuda::kStreamNonBlocking);
        Losses memory(driver, std::size_t{1} << 16);
        for (std::int64_t i = 0; i < 20; ++i) {  // more than there are slots
          const Address records = memory.write(std::vector<std::int64_t>{i, i}, stream);
          const Address losses =
              memory.write(std::vector<float>{static_cast<float>(i)}, stream);
          ASSERT_TRUE(
              reports.report({records, losses, LossType::kFloat, 2, true}, stream));
          if (i == 9) reports.hand_out();
        }
        const auto pending = reports.pending();
        ASSERT_EQ(pending.size(), 20u);
        for (std::int64_t i = 0; i < 20; ++i) {
          const auto& each = pending[static_cast<std::size_t>(i)];
          EXPECT_EQ(each.batches, i < 10 ? 1u : 2u);
          EXPECT_EQ(each.records, (std::vector<std::int64_t>{i, i}));
          EXPECT_EQ(each.losses, std::vector<float>(2, static_cast<float>(i)));
        }
        EXPECT_FALSE(reports.waits());
        echobuf::simulated::echobuf_simulated_wait(stream);
        driver.calls().stream_destroy(stream);
      });
  EXPECT_TRUE(outcome.reports.empty()) << outcome.reports.front();
  EXPECT_EQ(outcome.error, "");
}

}  // namespace
