// Everything at once: producers, consumers, prefetching, resets, records of several
// sizes. Nothing is lost, nothing is torn, and use is exact.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <ostream>
#include <tuple>
#include <vector>

#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

struct Load {
  std::size_t bytes;  // of a record
  int producers, consumers;
  std::uint32_t prefetch;
  Ratio factor;  // 0: automatic
};

std::ostream& operator<<(std::ostream& out, const Load& load) {
  return out << load.bytes << " bytes, " << load.producers << " producers, "
             << load.consumers << " consumers, prefetch " << load.prefetch
             << ", factor " << load.factor.num << "/" << load.factor.den;
}

/// A record that shows when it is torn: each word depends on the number and its place.
void fill(std::byte* record, std::size_t bytes, std::uint64_t id) {
  if (bytes < sizeof id) {
    record[0] = static_cast<std::byte>(id);
    return;
  }
  for (std::uint64_t at = 0; at < bytes; at += sizeof id) {
    const std::uint64_t word = at == 0 ? id : (id + at) * 0x9E3779B97F4A7C15u;
    std::memcpy(record + at, &word, sizeof word);
  }
}

/// The number of a record; false if it is torn.
bool read(const std::byte* record, std::size_t bytes, std::uint64_t& id) {
  if (bytes < sizeof id) {
    id = std::to_integer<std::uint64_t>(record[0]);
    return true;
  }
  std::memcpy(&id, record, sizeof id);
  std::vector<std::byte> whole(bytes);
  fill(whole.data(), bytes, id);
  return std::memcmp(whole.data(), record, bytes) == 0;
}

class Stress : public testing::TestWithParam<Load> {
 protected:
  BufferOptions options() const {
    BufferOptions options = numbered(192, 16, {1, 1});
    options.fields = {{GetParam().bytes, 1}};
    options.prefetch = GetParam().prefetch;
    options.automatic = GetParam().factor.num == 0;
    if (!options.automatic) options.factor = GetParam().factor;
    return options;
  }

  /// Puts its share of the numbers below n, in pieces of any size.
  void produce(Buffer& buffer, std::uint64_t p, std::uint64_t n) const {
    const auto producers = static_cast<std::uint64_t>(GetParam().producers);
    const std::size_t bytes = GetParam().bytes;
    std::mt19937_64 random(p);
    const std::uint64_t end = (p + 1) * n / producers;
    std::vector<std::byte> piece;
    for (std::uint64_t id = p * n / producers; id < end;) {
      const std::uint64_t count = std::min(end - id, 1 + random() % 40);
      piece.resize(count * bytes);
      for (std::uint64_t i = 0; i < count; ++i)
        fill(piece.data() + i * bytes, bytes, id + i);
      const SourceLeaf leaf{piece.data(), static_cast<std::ptrdiff_t>(bytes)};
      std::uint64_t done = 0;
      const Status status = promptly([&](Deadline deadline) {
        return buffer.put(buffer.term(), &leaf, count, 0, done, deadline, nullptr);
      });
      EXPECT_EQ(status, Status::kOk);
      EXPECT_EQ(done, count);
      id += count;
    }
  }

  /// Takes batches until the end and counts the numbers in them.
  void consume(Buffer& buffer, Ids& count) const {
    const std::size_t bytes = GetParam().bytes;
    Batch batch;
    Status status = Status::kOk;
    const auto next = [&](Deadline deadline) { return buffer.next(batch, deadline); };
    while ((status = promptly(next)) == Status::kOk)
      for (std::uint64_t r = 0; r < batch.count; ++r) {
        std::uint64_t id = 0;
        ASSERT_TRUE(read(batch.block.data() + r * bytes, bytes, id)) << "torn";
        ASSERT_LT(id, count.size());
        ++count[id];
      }
    EXPECT_EQ(status, Status::kFinished);
  }

  /// Runs one epoch of n examples: how often each was served.
  Ids epoch(Buffer& buffer, std::uint64_t n) const {
    std::vector<Ids> counts(static_cast<std::size_t>(GetParam().consumers), Ids(n, 0));
    Threads consumers, producers;
    for (Ids& count : counts) consumers.start([&] { consume(buffer, count); });
    for (int p = 0; p < GetParam().producers; ++p)
      producers.start([&, p] { produce(buffer, static_cast<std::uint64_t>(p), n); });
    producers.join();
    buffer.close();
    consumers.join();
    for (std::size_t c = 1; c < counts.size(); ++c)
      for (std::uint64_t id = 0; id < n; ++id) counts[0][id] += counts[c][id];
    return counts[0];
  }
};

constexpr Load kLoads[] = {
    {1, 2, 1, 0, {2, 1}},    {1, 3, 2, 2, {3, 1}},    {8, 2, 1, 2, {4, 1}},
    {8, 3, 2, 0, {2, 1}},    {8, 2, 2, 0, {5, 2}},    {8, 3, 2, 2, {7, 3}},
    {8, 2, 1, 0, {0, 1}},    {8, 3, 2, 2, {0, 1}},    {136, 2, 2, 0, {3, 1}},
    {136, 3, 1, 2, {1, 1}},  {136, 3, 2, 0, {0, 1}},  {4096, 2, 1, 0, {2, 1}},
    {4096, 3, 2, 2, {3, 2}}, {4096, 2, 2, 2, {0, 1}},
};
INSTANTIATE_TEST_SUITE_P(AllLoads, Stress, testing::ValuesIn(kLoads));

TEST_P(Stress, LosesNothingTearsNothingAndUsesExactly) {
  const Load& load = GetParam();
  Buffer buffer(options());
  for (std::uint64_t number = 0; number < 3; ++number) {
    if (number > 0) buffer.reset(number);
    // The number of a record of one byte is all that can be checked of it.
    const std::uint64_t n = load.bytes == 1 ? 256 : 4000 + 17 * number;
    const Ids count = epoch(buffer, n);
    for (std::uint64_t id = 0; id < n; ++id) {
      ASSERT_GE(count[id],
                std::max<std::uint64_t>(1, load.factor.num / load.factor.den));
      ASSERT_LE(count[id], load.factor.num == 0 ? 8 : load.factor.ceil());
    }
    const std::uint64_t draws =
        std::accumulate(count.begin(), count.end(), std::uint64_t{0});
    ASSERT_EQ(buffer.stats().served, draws);
    if (load.factor.num > 0) {
      const FixedSchedule schedule(options().window, load.factor,
                                   epoch_phase(load.factor, options().seed, number));
      ASSERT_EQ(draws, schedule.total_draws(n));
    }
  }
}

/// Resets while everybody is at work: a batch never mixes epochs, and the epoch that is
/// left to end is served exactly.
TEST(Stress, ResetsAtAnyMoment) {
  constexpr std::uint64_t kEpochs = 120, kExamples = 600, kLastExamples = 500;
  for (const bool automatic : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      BufferOptions options =
          automatic ? numbered_auto(96, 8) : numbered(96, 8, {3, 1});
      options.prefetch = prefetch;
      Buffer buffer(options);
      std::atomic<bool> stop{false};
      std::atomic<std::uint64_t> batches{0};
      std::mutex mutex;
      Ids last(kLastExamples, 0);
      Threads consumers;
      for (int c = 0; c < 2; ++c)
        consumers.start([&] {
          Ids ids;
          while (!stop) {
            // An epoch that ends is followed by another one, until we are told to stop.
            const Deadline soon = Clock::now() + std::chrono::milliseconds(20);
            if (next(buffer, ids, soon) != Status::kOk) {
              std::this_thread::yield();
              continue;
            }
            ++batches;
            const std::lock_guard lock(mutex);
            for (const std::uint64_t id : ids) {
              ASSERT_EQ(id >> 32, ids[0] >> 32) << "a batch of two epochs";
              if (id >> 32 == kEpochs) ++last.at(id & 0xFFFFFFFF);
            }
          }
        });
      std::mt19937_64 random(prefetch);
      for (std::uint64_t number = 1; number <= kEpochs; ++number) {
        buffer.reset(number);
        // Fewer than an epoch has in any case.
        const std::uint64_t until = batches + random() % 40;
        const std::uint64_t examples = number == kEpochs ? kLastExamples : kExamples;
        const std::uint64_t term = buffer.term();
        Threads producers;
        for (std::uint64_t p = 0; p < 2; ++p)
          producers.start([&, p] {
            const Ids ids = range((number << 32) + p * examples / 2,
                                  (number << 32) + (p + 1) * examples / 2);
            const SourceLeaf leaf = leaf_of(ids);
            std::uint64_t done = 0;
            const Status status = promptly([&](Deadline deadline) {
              return buffer.put(term, &leaf, ids.size(), 0, done, deadline, nullptr);
            });
            EXPECT_NE(status, Status::kTimeout);
            if (number == kEpochs) {
              EXPECT_EQ(status, Status::kOk);
            }
          });
        if (number == kEpochs) continue;  // this one is left to end
        const Deadline latest = far_off();
        while (batches < until && Clock::now() < latest) std::this_thread::yield();
        EXPECT_GE(batches, until) << "nothing is served any more";
        buffer.close();
      }
      buffer.close();
      const Deadline latest = far_off();
      while (!buffer.checkpoint().epoch_done && Clock::now() < latest)
        std::this_thread::yield();
      stop = true;
      consumers.join();
      for (const std::uint64_t times : last) {
        EXPECT_GE(times, automatic ? 1u : 3u);
        EXPECT_LE(times, automatic ? 8u : 3u);
      }
    }
}

}  // namespace
