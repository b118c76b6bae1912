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

/// The infos of a batch.
struct Infos {
  std::vector<std::int64_t> index;
  std::vector<std::uint32_t> echo;
  std::vector<std::int64_t> version;

  bool operator==(const Infos&) const = default;
};

template <class T>
std::vector<T> field_of(const Buffer& buffer, const Batch& batch, std::size_t leaf) {
  const T* const first = buffer.field<T>(batch, leaf);
  return {first, first + batch.count};
}

Infos infos_of(const Buffer& buffer, const Batch& batch) {
  return {field_of<std::int64_t>(buffer, batch, 1),
          field_of<std::uint32_t>(buffer, batch, 2),
          field_of<std::int64_t>(buffer, batch, 3)};
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

std::vector<Infos> draw_all(Buffer& buffer) {
  std::vector<Infos> drawn;
  Batch batch;
  while (promptly([&](Deadline end) { return buffer.next(batch, end); }) == Status::kOk)
    drawn.push_back(infos_of(buffer, batch));
  return drawn;
}

TEST(Expiry, OptionsAreChecked) {
  BufferOptions options = expiring(8, 4, {2, 1}, 0);
  EXPECT_TRUE(options.expires());
  EXPECT_EQ(options.drawn_when_asked().prefetch, 0u);
  options.leaves.clear();
  EXPECT_NO_THROW(checked(options));
  options.lengths.fields = {{0, 8, 4}};
  options.lengths.pack_to = 4;
  EXPECT_THROW(checked(options), std::invalid_argument);
}

TEST(Expiry, UsesOfTheRestAreCounted) {
  constexpr std::uint64_t kCount = 300;
  for (const bool is_auto : {false, true}) {
    BufferOptions options = expiring(32, 8, {4, 1}, 1);
    options.automatic = is_auto;
    Buffer buffer(options);
    Threads threads;
    threads.start([&] {
      EXPECT_EQ(put_versions(buffer, 0, kCount), Status::kOk);
      buffer.close();
    });
    std::uint64_t served = 0;
    std::vector<std::uint32_t> used(kCount, 0);
    for (const Infos& infos : draw_all(buffer))
      for (std::size_t i = 0; i < infos.index.size(); ++i, ++served) {
        const auto record = static_cast<std::uint64_t>(infos.index[i]);
        ASSERT_LT(record, kCount);
        EXPECT_EQ(infos.version[i], version_of(record));
        EXPECT_EQ(infos.echo[i], used[record]++);
      }
    const BufferStats stats = buffer.stats();
    EXPECT_EQ(stats.served, served);
    EXPECT_GT(stats.expired, 0u);
    if (!is_auto) {
      EXPECT_EQ(stats.served + stats.expired, 4 * kCount);
    }
    EXPECT_TRUE(buffer.checkpoint().epoch_done);
  }
}

/// All that the buffer has room for is there: what expires does not depend on timing.
TEST(Expiry, ACheckpointOfAnyBatchGoesOnTheSame) {
  constexpr std::uint64_t kCount = 24;
  for (const Ratio factor : {Ratio{3, 1}, Ratio{5, 2}}) {
    const BufferOptions options = expiring(24, 4, factor, 2);
    std::uint64_t expired = 0;
    for (const std::size_t batches : {1, 3, 5, 6}) {
      Buffer first(options), second(options);
      ASSERT_EQ(put_versions(first, 0, kCount), Status::kOk);
      first.close();
      Batch batch;
      for (std::size_t i = 0; i < batches; ++i)
        ASSERT_EQ(promptly([&](Deadline end) { return first.next(batch, end); }),
                  Status::kOk);
      const std::vector<std::uint64_t> words = to_words(first.checkpoint(), options);
      const Checkpoint point = from_words(words, options);
      ASSERT_TRUE(second.restore(point));
      EXPECT_EQ(to_words(second.checkpoint(), options), words);
      ASSERT_EQ(put_versions(second, point.fresh_offset(), kCount), Status::kOk);
      second.close();
      EXPECT_EQ(draw_all(first), draw_all(second));
      expired += second.stats().expired;
    }
    EXPECT_GT(expired, 0u);
  }
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

/// Format 3 is older than the options of today: it had those of losses, too.
TEST(Expiry, WordsOfAnOlderBuildGoOn) {
  const std::vector<std::uint64_t> words{
      3, 0, 6, 4, 3, 1, 7, 0, 16, 0, 0,  0,  0, 4602678819172646912,
      2, 0, 0, 1, 8, 3, 3, 4, 8,  4, 14, 14, 7, 2,
      6, 0, 0, 0, 0, 1, 1, 1, 0,  1};
  BufferOptions options = numbered(6, 4, {3, 1});
  options.max_staleness = 2;
  Buffer buffer(options);
  ASSERT_TRUE(buffer.restore(from_words(words, options)));
  EXPECT_EQ(to_words(buffer.checkpoint(), options), words);
  const Ids ids = range(4, 8);
  const std::vector<std::int64_t> versions{4, 5, 6, 7};
  const SourceLeaf leaf = leaf_of(ids);
  std::uint64_t done = 0;
  ASSERT_EQ(buffer.put(buffer.term(), &leaf, ids.size(), 0, done, Deadline::max(),
                       nullptr, versions.data()),
            Status::kOk);
  buffer.close();
  Batch batch;
  ASSERT_EQ(buffer.next(batch), Status::kOk);
  EXPECT_EQ(field_of<std::uint64_t>(buffer, batch, 0), (Ids{6, 7, 5, 6}));
  ASSERT_EQ(buffer.next(batch), Status::kOk);
  EXPECT_EQ(field_of<std::uint64_t>(buffer, batch, 0), (Ids{7}));
  EXPECT_EQ(buffer.next(batch), Status::kFinished);
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
