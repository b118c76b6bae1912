// Passes that leave records out, on the CPU, with reports and puts from other threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/checkpoint.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

BufferOptions with_infos(std::uint64_t window, std::uint64_t batch_size, Ratio factor) {
  BufferOptions options = numbered(window, batch_size, factor);
  options.echoes = true;
  options.leaves.push_back({0, nullptr});
  for (const InfoLeaf info : {InfoLeaf::kIndex, InfoLeaf::kEcho, InfoLeaf::kWeight}) {
    options.leaves.push_back({kNoField, nullptr});
    options.leaves.back().info = info;
  }
  return options;
}

BufferOptions by_loss(std::uint64_t window, std::uint64_t batch_size, Ratio factor,
                      double thin = 0.5) {
  BufferOptions options = with_infos(window, batch_size, factor);
  options.by_loss = true;
  options.thin = thin;
  return options;
}

/// The infos of a batch.
struct Infos {
  std::vector<std::int64_t> index;
  std::vector<std::uint32_t> echo;
  std::vector<float> weight;
};

template <class T>
std::vector<T> field_of(const Buffer& buffer, const Batch& batch, std::size_t leaf) {
  const T* const first = buffer.field<T>(batch, leaf);
  return {first, first + batch.count};
}

Infos infos_of(const Buffer& buffer, const Batch& batch) {
  return {field_of<std::int64_t>(buffer, batch, 1),
          field_of<std::uint32_t>(buffer, batch, 2), field_of<float>(buffer, batch, 3)};
}

/// Low for every second record.
std::vector<float> losses_of(const Infos& infos) {
  std::vector<float> losses;
  for (const std::int64_t index : infos.index)
    losses.push_back(index % 2 == 0 ? 0.0F : 1.0F);
  return losses;
}

void report(Buffer& buffer, const Infos& infos) {
  ASSERT_TRUE(
      buffer.report(infos.index.data(), losses_of(infos).data(), infos.index.size()));
}

TEST(Reuse, OptionsAreChecked) {
  BufferOptions options = by_loss(8, 4, {2, 1});
  for (const double thin : {-0.5, 1.0, 2.0}) {
    options.thin = thin;
    EXPECT_THROW(checked(options), std::invalid_argument);
  }
  options.thin = 0.0;
  EXPECT_NO_THROW(checked(options));
}

TEST(Reuse, ANegativeNumberIsRefused) {
  Buffer buffer(by_loss(8, 4, {2, 1}));
  ASSERT_EQ(put(buffer, range(0, 6)), Status::kOk);
  const std::int64_t records[] = {0, 6, -1};
  const float losses[] = {1, 2, 3};
  EXPECT_FALSE(buffer.report(records, losses, 3));
  EXPECT_TRUE(buffer.report(records, losses, 2)) << "one was not put: passed over";
}

/// Each record as often as is due, its uses counted one by one.
void check(const std::vector<Infos>& batches, std::uint64_t n, std::uint64_t factor) {
  std::vector<std::uint64_t> used(n, 0);
  bool any_left_out = false;
  for (const Infos& infos : batches)
    for (std::size_t i = 0; i < infos.index.size(); ++i) {
      const auto index = static_cast<std::uint64_t>(infos.index[i]);
      ASSERT_LT(index, n);
      EXPECT_EQ(infos.echo[i], used[index]);
      if (infos.echo[i] == 0 || index % 2 == 1) {
        EXPECT_EQ(infos.weight[i], 1.0F);
      }
      ++used[index];
    }
  for (std::uint64_t index = 0; index < n; ++index) {
    EXPECT_GE(used[index], 1u);
    if (index % 2 == 1) {
      EXPECT_EQ(used[index], factor);
    }
    any_left_out = any_left_out || used[index] < factor;
  }
  EXPECT_TRUE(any_left_out);
}

std::vector<Infos> draw_all(Buffer& buffer) {
  std::vector<Infos> drawn;
  Batch batch;
  while (promptly([&](Deadline end) { return buffer.next(batch, end); }) ==
         Status::kOk) {
    drawn.push_back(infos_of(buffer, batch));
    report(buffer, drawn.back());
  }
  return drawn;
}

TEST(Reuse, LowLossesAreLeftOutAndUsesCounted) {
  for (const bool is_auto : {false, true}) {
    BufferOptions options = by_loss(32, 8, {4, 1});
    options.automatic = is_auto;
    options.max_factor = 1;
    Buffer buffer(options);
    Threads threads;
    threads.start([&] {
      EXPECT_EQ(put(buffer, range(0, 300)), Status::kOk);
      buffer.close();
    });
    const std::vector<Infos> drawn = draw_all(buffer);
    if (!is_auto) check(drawn, 300, 4);
    std::uint64_t served = 0;
    for (const Infos& infos : drawn) served += infos.index.size();
    EXPECT_EQ(buffer.stats().served, served);
    EXPECT_TRUE(buffer.checkpoint().epoch_done);
  }
}

TEST(Reuse, ACheckpointOfAnyBatchGoesOnTheSame) {
  for (const Ratio factor : {Ratio{3, 1}, Ratio{5, 2}}) {
    const BufferOptions options = by_loss(24, 4, factor);
    for (const std::size_t batches : {1, 5, 9, 14}) {
      Buffer first(options), second(options);
      Threads threads;
      threads.start([&] {
        EXPECT_EQ(put(first, range(0, 60)), Status::kOk);
        first.close();
      });
      Batch batch;
      for (std::size_t i = 0; i < batches; ++i) {
        ASSERT_EQ(promptly([&](Deadline end) { return first.next(batch, end); }),
                  Status::kOk);
        report(first, infos_of(first, batch));
      }
      const std::vector<std::uint64_t> words = to_words(first.checkpoint(), options);
      const Checkpoint point = from_words(words, options);
      ASSERT_TRUE(second.restore(point));
      EXPECT_EQ(to_words(second.checkpoint(), options), words);
      threads.start([&] {
        EXPECT_EQ(put(second, range(point.fresh_offset(), 60)), Status::kOk);
        second.close();
      });
      const std::vector<Infos> one = draw_all(first), other = draw_all(second);
      ASSERT_EQ(one.size(), other.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        EXPECT_EQ(one[i].index, other[i].index);
        EXPECT_EQ(one[i].echo, other[i].echo);
        EXPECT_EQ(one[i].weight, other[i].weight);
      }
    }
  }
}

TEST(Reuse, DamagedWordsOfACheckpointAreRefused) {
  const BufferOptions options = by_loss(24, 4, {3, 1});
  Buffer buffer(options);
  ASSERT_EQ(put(buffer, range(0, 24)), Status::kOk);
  Batch batch;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(buffer.next(batch), Status::kOk);
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

TEST(Reuse, ReportsAndPutsFromManyThreadsWhileOthersDraw) {
  constexpr std::uint64_t kEach = 2000;
  constexpr std::uint64_t kProducers = 3;
  Buffer buffer(by_loss(256, 16, {4, 1}, 0.75));
  std::atomic<std::uint64_t> served{0};
  std::vector<std::atomic<std::uint32_t>> uses(kEach * kProducers);
  Threads producers, consumers;
  for (std::uint64_t p = 0; p < kProducers; ++p)
    producers.start([&, p] {
      EXPECT_EQ(put(buffer, range(p * kEach, (p + 1) * kEach)), Status::kOk);
    });
  for (int c = 0; c < 3; ++c)
    consumers.start([&] {
      Batch batch;
      while (promptly([&](Deadline end) { return buffer.next(batch, end); }) ==
             Status::kOk) {
        const Infos infos = infos_of(buffer, batch);
        for (const std::int64_t index : infos.index)
          uses[static_cast<std::size_t>(index)].fetch_add(1);
        served += batch.count;
        report(buffer, infos);
        static_cast<void>(buffer.stats());
      }
    });
  producers.join();
  buffer.close();
  consumers.join();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_GE(uses[i].load(), 1u);
    EXPECT_LE(uses[i].load(), 4u);
  }
  EXPECT_EQ(buffer.stats().served, served.load());
  EXPECT_LT(served.load(), 4 * kEach * kProducers);
}

TEST(Reuse, OldVersionsPutByManyThreadsAreServedOrExpire) {
  constexpr std::uint64_t kEach = 1500;
  constexpr std::uint64_t kProducers = 3;
  BufferOptions options = with_infos(128, 8, {4, 1});
  options.max_staleness = 20;
  Buffer buffer(options);
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
