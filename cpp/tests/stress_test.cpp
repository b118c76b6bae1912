// Everything at once: producers, consumers, prefetching, resets, records of several
// sizes. Nothing is lost, nothing is torn, and use is exact.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include "stress_support.hpp"

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

  /// Puts first ... end - 1, in pieces of any size.
  void produce(Buffer& buffer, std::uint64_t first, std::uint64_t end) const {
    const std::size_t bytes = GetParam().bytes;
    std::mt19937_64 random(first);
    std::vector<std::byte> piece;
    for (std::uint64_t id = first; id < end;) {
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
    return serve_with_threads(
        buffer, n, GetParam().producers, GetParam().consumers,
        [&](std::uint64_t first, std::uint64_t end) { produce(buffer, first, end); },
        [&](Ids& count) { consume(buffer, count); });
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
    const std::uint64_t n = load.bytes == 1 ? 256 : rounds(4000) + 17 * number;
    const Ids count = epoch(buffer, n);
    expect_exact_use(count, load.factor);
    if (HasFatalFailure()) return;
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

TEST(Stress, ResetsAtAnyMoment) {
  for (const bool automatic : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      BufferOptions options =
          automatic ? numbered_auto(96, 8) : numbered(96, 8, {3, 1});
      options.prefetch = prefetch;
      Buffer buffer(options);
      ResetLoad<Buffer> load{rounds(120), 600, 500, 40, {automatic ? 0u : 3u, 1},
                             prefetch};
      load.take = [&](Ids& ids, Deadline soon) { return next(buffer, ids, soon); };
      load.put = [&](std::uint64_t term, std::uint64_t first, std::uint64_t end) {
        const Ids ids = range(first, end);
        const SourceLeaf leaf = leaf_of(ids);
        std::uint64_t done = 0;
        return promptly([&](Deadline deadline) {
          return buffer.put(term, &leaf, ids.size(), 0, done, deadline, nullptr);
        });
      };
      load.enter = [&](std::uint64_t number) { buffer.reset(number); };
      load.leave = [](std::uint64_t) {};
      load.run(buffer);
    }
}

}  // namespace
