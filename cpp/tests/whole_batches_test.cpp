// A buffer of whole batches whose examples differ in length, beside a slow reference.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/buffer/checkpoint.hpp"
#include "ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using Form = LengthOptions::Form;

constexpr std::uint64_t kMostExamples = 5;
constexpr std::uint64_t kWholeBatches = 70;

/// Each record is a batch of up to kMostExamples.
BufferOptions of_batches(std::uint64_t window, Ratio factor, std::uint64_t payload) {
  BufferOptions options = of_lengths(window, 1, factor, payload);
  options.ragged = true;
  options.fields[0].rows = kMostExamples;
  options.lengths.examples = kMostExamples;
  return options;
}

/// Batch `number` has some examples, or none.
Ids examples_of(std::uint64_t number) {
  const std::uint64_t first = number * kMostExamples;
  return range(first, first + number * 7 % (kMostExamples + 1));
}

/// The rows of a batch, of lengths of its examples.
LengthsOf of_whole(const LengthsOf& lengths) {
  return [=](std::uint64_t number) {
    Lengths all{0, 0};
    for (const std::uint64_t id : examples_of(number)) {
      all.tokens += lengths(id).tokens;
      all.points += lengths(id).points;
    }
    return all;
  };
}

/// A whole batch in memory, as put() takes it.
class WholeBatch {
 public:
  WholeBatch(std::uint64_t number, const LengthsOf& lengths)
      : records_(examples_of(number), lengths) {
    for (std::size_t f = 0; f < 3; ++f) {
      leaves_[f] = records_.leaves()[f];
      leaves_[f].bytes = 0;  // of an example, where it is of one size
      if (f == 0) continue;
      leaves_[f].batch_offsets = leaves_[f].offsets;
      leaves_[f].rows = static_cast<std::uint64_t>(leaves_[f].offsets[records_.size()]);
      leaves_[f].offsets = nullptr;
    }
  }

  Status put(Buffer& buffer) const {
    return buffer.put(leaves_, kAtOnce, records_.size());
  }

 private:
  const Records records_;
  SourceLeaf leaves_[3] = {};
};

/// Serves batches `first` ... kWholeBatches-1, up to `most` draws.
std::vector<Ids> serve_whole(Buffer& buffer, const LengthsOf& lengths,
                             std::uint64_t first = 0, std::size_t most = 1000) {
  std::vector<Ids> got;
  for (std::uint64_t fresh = first; got.size() < most;) {
    while (fresh < kWholeBatches &&
           WholeBatch(fresh, lengths).put(buffer) == Status::kOk)
      ++fresh;
    if (fresh == kWholeBatches) buffer.close();
    Batch batch;
    const Status status = buffer.next(batch, Clock::now() + std::chrono::seconds(20));
    if (status != Status::kOk) {
      EXPECT_EQ(status, Status::kFinished);
      return got;
    }
    got.push_back(read_batch(batch, buffer.options(), lengths));
  }
  return got;
}

std::vector<Ids> expected_batches(const BufferOptions& options, std::uint64_t epoch,
                                  const LengthsOf& lengths) {
  std::vector<Ids> batches;
  for (const std::uint64_t number :
       expected_draws(options, kWholeBatches, epoch, of_whole(lengths)))
    batches.push_back(examples_of(number));
  return batches;
}

std::vector<BufferOptions> whole_cases(std::uint64_t most) {
  std::vector<BufferOptions> cases;
  for (const Ratio factor : {Ratio{1, 1}, Ratio{3, 1}, Ratio{5, 2}})
    for (const std::uint64_t shares_of : {1, 4}) {
      const std::uint64_t batch = kMostExamples * (most + 2) * kTokenBytes;
      BufferOptions options = of_batches(9, factor, factor.ceil() * shares_of * batch);
      cases.push_back(options);
      options.prefetch = 2;
      options.lengths.form = Form::kPadded;
      options.lengths.fields[1].pad = {std::byte{3}, std::byte{4}};
      cases.push_back(options);
      options.lengths.pad_to = 8;
      cases.push_back(options);
    }
  BufferOptions bounded = of_batches(6, {2, 1}, 0);
  bounded.lengths.fields[0].max_length = most;
  bounded.lengths.fields[1].max_length = most;
  cases.push_back(bounded);
  return cases;
}

TEST(WholeBatches, AreServedAsTheReferenceSays) {
  const LengthsOf lengths = some_lengths(20);
  for (const BufferOptions& options : whole_cases(20)) {
    SCOPED_TRACE(name_of_lengths(options));
    Buffer buffer(options);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      if (epoch > 0) {
        ASSERT_EQ(buffer.reset(epoch), Status::kOk);
      }
      const std::vector<Ids> batches = expected_batches(options, epoch, lengths);
      ASSERT_GE(batches.size(), kWholeBatches);
      ASSERT_EQ(serve_whole(buffer, lengths), batches);
      ASSERT_EQ(buffer.stats().served, batches.size());
    }
  }
}

TEST(WholeBatches, GoOnFromACheckpoint) {
  const LengthsOf lengths = some_lengths(20);
  const BufferOptions options = whole_cases(20)[7];
  const std::vector<Ids> batches = expected_batches(options, 0, lengths);
  for (const std::size_t done : {1, 20, 100}) {
    Buffer buffer(options);
    serve_whole(buffer, lengths, 0, done);
    const Checkpoint checkpoint = buffer.checkpoint();
    Buffer other(options);
    ASSERT_TRUE(other.restore(checkpoint));
    const auto at = batches.begin() + static_cast<std::ptrdiff_t>(done);
    EXPECT_EQ(serve_whole(other, lengths, checkpoint.fresh_offset()),
              std::vector<Ids>(at, batches.end()));
  }
}

TEST(WholeBatches, RefusesWhatIsNone) {
  BufferOptions options = of_batches(4, {1, 1}, 400);
  options.lengths.fields[0].max_length = 6;
  Buffer buffer(options);
  const std::uint64_t ids[kMostExamples + 1] = {};
  const std::uint32_t tokens[200] = {};
  const std::uint16_t points[3] = {};
  const std::int64_t good[] = {0, 2, 4, 4, 4, 4, 4};
  const SourceLeaf of_ids = SourceLeaf::of(ids, 2);
  const SourceLeaf two = SourceLeaf::of_batch(tokens, good, 2);
  const std::int64_t zeros[kMostExamples + 2] = {};
  const SourceLeaf no_points = SourceLeaf::of_batch(points, zeros, 2, 3);
  const auto refuses = [&](const SourceLeaf& leaf, std::size_t examples = 2) {
    const SourceLeaf leaves[] = {of_ids, leaf, no_points};
    EXPECT_THROW(static_cast<void>(buffer.put(leaves, kAtOnce, examples)),
                 std::invalid_argument);
  };
  refuses(SourceLeaf::of_rows(tokens, 4));
  refuses(SourceLeaf::of_offsets(tokens, good));
  const std::int64_t late[] = {1, 2, 4}, down[] = {0, 5, 4}, long_one[] = {0, 7, 8};
  refuses(SourceLeaf::of_batch(tokens, late, 2));
  refuses(SourceLeaf::of_batch(tokens, down, 2));
  refuses(SourceLeaf::of_batch(tokens, long_one, 2));
  refuses(SourceLeaf::of_batch(tokens, good, kMostExamples + 1), kMostExamples + 1);
  SourceLeaf short_one = two;
  short_one.rows = 3;
  refuses(short_one);
  refuses(SourceLeaf::of_batch<std::uint32_t>(nullptr, good, 2));
  const SourceLeaf leaves[] = {of_ids, two, no_points};
  std::uint64_t done = 0;
  EXPECT_THROW(buffer.put(buffer.term(), leaves, 2, 2, done, Deadline::max(), nullptr),
               std::invalid_argument);
  EXPECT_EQ(buffer.tail(), 0u);
  EXPECT_EQ(buffer.put(leaves, kAtOnce, 2), Status::kOk);

  options.lengths.fields[0].max_length = 0;
  options.lengths.payload_bytes = 15;
  Buffer small(options);
  EXPECT_THROW(static_cast<void>(small.put(leaves, kAtOnce, 2)), std::invalid_argument);
}

TEST(WholeBatches, CountTheirMemory) {
  BufferOptions options = of_batches(256, {4, 1}, 1 << 20);
  Buffer buffer(options);
  const BufferNeeds needs = Buffer::needs(options);
  const std::uint64_t tables = options.window * 2 * (kMostExamples + 1) * 16;
  EXPECT_GE(buffer.stats().bytes, (1u << 20) + tables);
  EXPECT_LE(buffer.stats().bytes, needs.slots * needs.bytes_per_slot + needs.more +
                                      needs.batches * needs.bytes_per_batch);
}

TEST(WholeBatches, HaveRowsOfExamplesInTheirStatistics) {
  BufferOptions options = of_batches(4, {1, 1}, 4000);
  options.lengths.form = Form::kPadded;
  Buffer buffer(options);
  const LengthsOf lengths = [](std::uint64_t id) { return Lengths{id % 3, 2}; };
  for (std::uint64_t number = 1; number < 4; ++number)  // of 1, 2 and 3 examples
    ASSERT_EQ(WholeBatch(number, lengths).put(buffer), Status::kOk);
  buffer.close();
  std::uint64_t examples = 0, tokens = 0, padded = 0;
  for (Batch batch; buffer.next(batch, kAtOnce) == Status::kOk;) {
    examples += batch.count;
    padded += batch.count * batch.places[1].rows;
    for (const std::uint64_t id : read_batch(batch, options, lengths))
      tokens += lengths(id).tokens;
  }
  EXPECT_EQ(examples, 6u);
  EXPECT_DOUBLE_EQ(buffer.stats().mean_rows, (static_cast<double>(tokens) + 12) / 12);
  EXPECT_DOUBLE_EQ(
      buffer.stats().padding_share,
      1 - (static_cast<double>(tokens) + 12) / (static_cast<double>(padded) + 12));
}

}  // namespace
