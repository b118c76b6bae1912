// Records that differ in length under threads: producers, consumers, prefetching,
// resets. Nothing is lost, nothing is torn, and use is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <random>
#include <vector>

#include "ragged_support.hpp"
#include "stress_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using Form = LengthOptions::Form;

struct RaggedLoad {
  std::uint64_t tokens;         // of a record, at most
  std::uint64_t payload_bytes;  // 0: bounded by `max_length`
  std::uint64_t batch_size;
  std::uint64_t max_rows;
  int producers, consumers;
  std::uint32_t prefetch;
  Ratio factor;  // 0: automatic
};

std::ostream& operator<<(std::ostream& out, const RaggedLoad& load) {
  return out << load.tokens << " tokens, payload " << load.payload_bytes << ", batch "
             << load.batch_size << ", max_rows " << load.max_rows << ", "
             << load.producers << " producers, " << load.consumers
             << " consumers, prefetch " << load.prefetch << ", factor "
             << load.factor.num << "/" << load.factor.den;
}

BufferOptions options_of(const RaggedLoad& load) {
  BufferOptions options = of_lengths(96, load.batch_size, {1, 1}, load.payload_bytes);
  if (load.payload_bytes == 0) {
    options.lengths.fields[0].max_length = load.tokens;
    options.lengths.fields[1].max_length = load.tokens;
  }
  options.lengths.max_rows = load.max_rows;
  if (load.consumers == 1) options.lengths.form = Form::kPadded;
  options.prefetch = load.prefetch;
  options.automatic = load.factor.num == 0;
  if (!options.automatic) options.factor = load.factor;
  return options;
}

/// Puts first ... end-1, in pieces of any size.
Status produce(Buffer& buffer, std::uint64_t term, std::uint64_t first,
               std::uint64_t end, const LengthsOf& lengths) {
  std::mt19937_64 random(first);
  while (first < end) {
    const std::uint64_t count = std::min(end - first, 1 + random() % 40);
    const Records records(range(first, first + count), lengths);
    std::uint64_t done = 0;
    const Status status = promptly([&](Deadline deadline) {
      return buffer.put(term, records.leaves(), count, 0, done, deadline, nullptr);
    });
    if (status != Status::kOk) return status;
    EXPECT_EQ(done, count);
    first += count;
  }
  return Status::kOk;
}

class RaggedStress : public testing::TestWithParam<RaggedLoad> {
 protected:
  /// Runs one epoch of n examples: how often each was served.
  static Ids epoch(Buffer& buffer, std::uint64_t n, const LengthsOf& lengths) {
    const RaggedLoad& load = GetParam();
    const auto put = [&](std::uint64_t first, std::uint64_t end) {
      EXPECT_EQ(produce(buffer, buffer.term(), first, end, lengths), Status::kOk);
    };
    const auto draw = [&](Ids& count) {
      Batch batch;
      Status status = Status::kOk;
      const auto next = [&](Deadline until) { return buffer.next(batch, until); };
      while ((status = promptly(next)) == Status::kOk)
        for (const std::uint64_t id : read_batch(batch, buffer.options(), lengths))
          ++count.at(id);
      EXPECT_EQ(status, Status::kFinished);
    };
    return serve_with_threads(buffer, n, load.producers, load.consumers, put, draw);
  }
};

constexpr RaggedLoad kRaggedLoads[] = {
    // A share is hardly more than a record; or holds many; or is without a limit.
    {30, 2 * 130, 16, 0, 2, 1, 0, {2, 1}},   {30, 3 * 130, 16, 0, 3, 2, 2, {3, 1}},
    {30, 6000, 16, 100, 2, 2, 0, {4, 1}},    {30, 3 * 130, 64, 0, 2, 2, 0, {5, 2}},
    {30, 6000, 16, 60, 3, 1, 2, {7, 3}},     {30, 16 * 130, 16, 0, 2, 1, 0, {0, 1}},
    {30, 6000, 16, 100, 3, 2, 2, {0, 1}},    {30, 0, 16, 0, 3, 2, 0, {2, 1}},
    {900, 3 * 3700, 16, 0, 2, 2, 2, {3, 1}}, {900, 60'000, 16, 2000, 3, 1, 0, {1, 1}},
};
INSTANTIATE_TEST_SUITE_P(AllLoads, RaggedStress, testing::ValuesIn(kRaggedLoads));

TEST_P(RaggedStress, LosesNothingTearsNothingAndUsesExactly) {
  const RaggedLoad& load = GetParam();
  const LengthsOf lengths = some_lengths(load.tokens);
  Buffer buffer(options_of(load));
  for (std::uint64_t number = 0; number < 3; ++number) {
    if (number > 0) buffer.reset(number);
    const std::uint64_t n = rounds(1500) + 17 * number;
    const Ids count = epoch(buffer, n, lengths);
    expect_exact_use(count, load.factor);
    if (HasFatalFailure()) return;
    const std::uint64_t draws =
        std::accumulate(count.begin(), count.end(), std::uint64_t{0});
    ASSERT_EQ(buffer.stats().served, draws);
    ASSERT_TRUE(buffer.checkpoint().epoch_done);
    if (load.factor.den == 1 && load.factor.num > 0) {
      ASSERT_EQ(draws, n * load.factor.num);
    }
  }
}

/// Some epochs were opened ahead.
TEST(RaggedStress, ResetsAtAnyMoment) {
  const LengthsOf lengths = some_lengths(30);
  for (const bool automatic : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      BufferOptions options = automatic ? of_lengths_auto(64, 8, 16 * 130)
                                        : of_lengths(64, 8, {3, 1}, 3 * 130);
      options.prefetch = prefetch;
      Buffer buffer(options);
      ResetLoad<Buffer> load{rounds(60), 300, 300, 30, {automatic ? 0u : 3u, 1},
                             prefetch};
      load.take = [&](Ids& ids, Deadline soon) {
        Batch batch;
        const Status status = buffer.next(batch, soon);
        if (status == Status::kOk) ids = read_batch(batch, options, lengths);
        return status;
      };
      load.put = [&](std::uint64_t term, std::uint64_t first, std::uint64_t end) {
        return produce(buffer, term, first, end, lengths);
      };
      std::mt19937_64 random(prefetch);
      bool ahead = false;
      load.enter = [&](std::uint64_t number) {
        if (!ahead || !buffer.go_ahead()) buffer.reset(number);
      };
      load.leave = [&](std::uint64_t number) {
        ahead = random() % 2 && buffer.open_ahead(number + 1);
      };
      load.run(buffer);
    }
}

TEST(RaggedStress, EndsWhenItFailsOrIsShutDown) {
  const LengthsOf lengths = some_lengths(30);
  for (const bool fails : {false, true})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      BufferOptions options = of_lengths(16, 5, {2, 1}, 2 * 30 * kTokenBytes);
      options.prefetch = prefetch;
      Buffer buffer(options);
      put_what_fits(buffer, 0, 90, lengths);
      Status put = Status::kOk, drawn = Status::kOk;
      Threads threads;
      threads.start([&] {
        const Records records(range(0, 400), lengths);
        std::uint64_t done = 0;
        put = promptly([&](Deadline deadline) {
          return buffer.put(buffer.term(), records.leaves(), 400, 0, done, deadline,
                            nullptr);
        });
      });
      threads.start([&] {
        Batch batch;
        for (int i = 0; i < 3 && drawn == Status::kOk; ++i)
          drawn =
              promptly([&](Deadline deadline) { return buffer.next(batch, deadline); });
        if (fails)
          buffer.fail();
        else
          buffer.shut_down();
        drawn = buffer.next(batch, kAtOnce);
      });
      threads.join();
      EXPECT_EQ(put, Status::kClosed);
      EXPECT_EQ(drawn, fails ? Status::kFailed : Status::kClosed);
    }
}

}  // namespace
