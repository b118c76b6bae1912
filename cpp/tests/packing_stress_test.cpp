// Packed rows under threads: producers, consumers, prefetching, resets.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "packing_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

/// Puts first ... end-1, in pieces of any size.
Status produce_rows(Buffer& buffer, std::uint64_t term, std::uint64_t first,
                    std::uint64_t end, const LengthOf& length) {
  std::mt19937_64 random(first);
  while (first < end) {
    const std::uint64_t count = std::min(end - first, 1 + random() % 40);
    const PackingRecords records(first, first + count, length);
    std::uint64_t done = 0;
    const Status status = promptly([&](Deadline deadline) {
      return buffer.put(term, records.leaves(), count, 0, done, deadline, nullptr);
    });
    if (status != Status::kOk) return status;
    first += count;
  }
  return Status::kOk;
}

BufferOptions loaded(bool automatic, std::uint32_t prefetch, std::uint64_t rows) {
  BufferOptions options = packing(64, rows, {3, 1}, 20);
  options.lengths.payload_bytes = 3 * 40 * 10;
  if (automatic) options.lengths.payload_bytes = 16 * 40 * 10;
  options.automatic = automatic;
  options.prefetch = prefetch;
  return options;
}

TEST(PackingStress, LosesNothingTearsNothingAndUsesExactly) {
  constexpr std::uint64_t kExamples = rounds(1500);
  const LengthOf length = row_lengths(20);
  for (const bool automatic : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      Buffer buffer(loaded(automatic, prefetch, 4));
      for (std::uint64_t number = 0; number < 3; ++number) {
        if (number > 0) buffer.reset(number);
        Ids count(kExamples, 0);
        std::mutex mutex;
        Threads consumers, producers;
        for (int c = 0; c < 2; ++c)
          consumers.start([&] {
            Batch batch;
            const auto next = [&](Deadline until) { return buffer.next(batch, until); };
            while (promptly(next) == Status::kOk) {
              const auto rows = read_rows(batch, buffer.options(), length);
              const std::lock_guard lock(mutex);
              for (const Ids& row : rows)
                for (const std::uint64_t id : row) ++count.at(id);
              buffer.checkpoint();
            }
          });
        for (std::uint64_t p = 0; p < 3; ++p)
          producers.start([&, p] {
            EXPECT_EQ(produce_rows(buffer, buffer.term(), p * kExamples / 3,
                                   (p + 1) * kExamples / 3, length),
                      Status::kOk);
          });
        producers.join();
        buffer.close();
        consumers.join();
        std::uint64_t all = 0;
        for (const std::uint64_t times : count) {
          EXPECT_GE(times, automatic ? 1u : 3u);
          EXPECT_LE(times, automatic ? 8u : 3u);
          all += times;
        }
        EXPECT_EQ(buffer.stats().served, all);
        EXPECT_TRUE(buffer.checkpoint().epoch_done);
      }
    }
}

/// A row never holds examples of two epochs, whenever one is given up.
TEST(PackingStress, ResetsAtAnyMoment) {
  constexpr std::uint64_t kEpochs = rounds(40), kExamples = 200;
  const LengthOf length = row_lengths(20);
  for (const bool automatic : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      const BufferOptions options = loaded(automatic, prefetch, 2);
      Buffer buffer(options);
      std::atomic<bool> stop{false};
      std::atomic<std::uint64_t> batches{0};
      Ids last(kExamples, 0);
      Threads consumer;
      consumer.start([&] {
        Batch batch;
        while (!stop) {
          const Deadline soon = Clock::now() + std::chrono::milliseconds(20);
          if (buffer.next(batch, soon) != Status::kOk) {
            std::this_thread::yield();
            continue;
          }
          ++batches;
          const auto rows = read_rows(batch, options, length);
          for (const Ids& row : rows)
            for (const std::uint64_t id : row) {
              ASSERT_EQ(id / 1000, rows[0][0] / 1000) << "a batch of two epochs";
              if (id / 1000 == kEpochs) ++last.at(id % 1000);
            }
        }
      });
      std::mt19937_64 random(prefetch);
      bool ahead = false;
      for (std::uint64_t number = 1; number <= kEpochs; ++number) {
        if (!ahead || !buffer.go_ahead()) buffer.reset(number);
        const std::uint64_t until = batches + random() % 10;
        const std::uint64_t term = buffer.term();
        Threads producer;
        producer.start([&] {
          produce_rows(buffer, term, number * 1000, number * 1000 + kExamples, length);
        });
        if (number == kEpochs) continue;  // this one is left to end
        const Deadline latest = far_off();
        while (batches < until && Clock::now() < latest) std::this_thread::yield();
        EXPECT_GE(batches, until) << "nothing is served any more";
        buffer.close();
        producer.join();
        ahead = random() % 2 && buffer.open_ahead(number + 1);
      }
      buffer.close();
      const Deadline latest = far_off();
      while (!buffer.checkpoint().epoch_done && Clock::now() < latest)
        std::this_thread::yield();
      stop = true;
      consumer.join();
      for (const std::uint64_t times : last) {
        EXPECT_GE(times, automatic ? 1u : 3u);
        EXPECT_LE(times, automatic ? 8u : 3u);
      }
    }
}

}  // namespace
