// Passes that leave out expired records, on the CPU, with puts from other threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/checkpoint.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

BufferOptions expiring(std::uint64_t window, std::uint64_t batch_size, Ratio factor,
                       std::int64_t max_staleness) {
  BufferOptions options = numbered(window, batch_size, factor);
  options.max_staleness = max_staleness;
  options.echoes = true;
  options.leaves.push_back({0, nullptr});
  for (const InfoLeaf info : {InfoLeaf::kIndex, InfoLeaf::kEcho, InfoLeaf::kVersion}) {
    options.leaves.push_back({kNoField, nullptr});
    options.leaves.back().info = info;
  }
  return options;
}

/// It rises every five records, and each seventh record is an old one.
std::int64_t version_of(std::uint64_t record) {
  const auto version = static_cast<std::int64_t>(record / 5);
  return record % 7 == 6 ? std::max<std::int64_t>(version - 3, 0) : version;
}

Status put_versions(Buffer& buffer, std::uint64_t first, std::uint64_t end) {
  const Ids ids = range(first, end);
  std::vector<std::int64_t> versions;
  for (const std::uint64_t id : ids) versions.push_back(version_of(id));
  const SourceLeaf leaf = leaf_of(ids);
  std::uint64_t done = 0;
  return promptly([&](Deadline deadline) {
    return buffer.put(buffer.term(), &leaf, ids.size(), 0, done, deadline, nullptr,
                      versions.data());
  });
}

TEST(Expiry, DamagedWordsOfACheckpointAreRefused) {
  const BufferOptions options = expiring(24, 4, {3, 1}, 2);
  Buffer buffer(options);
  ASSERT_EQ(put_versions(buffer, 0, 24), Status::kOk);
  Batch batch;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(buffer.next(batch), Status::kOk);
  const std::vector<std::uint64_t> words = to_words(buffer.checkpoint(), options);
  std::uint64_t refused = 0;
  for (std::size_t at = 0; at < words.size(); ++at) {
    std::vector<std::uint64_t> damaged = words;
    damaged[at] += std::uint64_t{1} << 40;
    Buffer second(options);
    try {  // some numbers may be any, but none brings a restore down
      static_cast<void>(second.restore(from_words(damaged, options)));
    } catch (const std::invalid_argument&) {
      ++refused;
    }
    damaged.resize(at);
    EXPECT_THROW(from_words(damaged, options), std::invalid_argument);
  }
  EXPECT_GT(refused, words.size() / 2);
}

TEST(Expiry, OldVersionsPutByManyThreadsAreServedOrExpire) {
  constexpr std::uint64_t kEach = 1500;
  constexpr std::uint64_t kProducers = 3;
  Buffer buffer(expiring(128, 8, {4, 1}, 20));
  std::atomic<std::int64_t> policy{0};
  std::atomic<std::uint64_t> served{0};
  Threads producers, consumers;
  for (std::uint64_t p = 0; p < kProducers; ++p)
    producers.start([&] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const Ids id{i};
        const SourceLeaf leaf = leaf_of(id);
        const std::int64_t version = policy.fetch_add(i % 3 == 0 ? 1 : 0);
        std::uint64_t done = 0;
        EXPECT_EQ(promptly([&](Deadline end) {
                    return buffer.put(buffer.term(), &leaf, 1, 0, done, end, nullptr,
                                      &version);
                  }),
                  Status::kOk);
      }
    });
  for (int c = 0; c < 2; ++c)
    consumers.start([&] {
      Batch batch;
      while (promptly([&](Deadline end) { return buffer.next(batch, end); }) ==
             Status::kOk)
        served += batch.count;
    });
  producers.join();
  buffer.close();
  consumers.join();
  const BufferStats stats = buffer.stats();
  EXPECT_EQ(stats.served, served.load());
  EXPECT_EQ(stats.served + stats.expired, 4 * kEach * kProducers);
  EXPECT_GT(stats.expired, 0u);
}

}  // namespace
