// A buffer of records that differ in length: what it refuses, waits, and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

TEST(RaggedBuffer, RefusesRecordsThatAreTooLargeBeforeAnyIsPut) {
  const BufferOptions options = of_lengths(16, 4, {2, 1}, 2 * 24 * kTokenBytes);
  Buffer buffer(options);
  const auto put = [&](const LengthsOf& lengths, std::uint64_t n) {
    const Records records(range(0, n), lengths);
    std::uint64_t done = 0;
    return buffer.put(buffer.term(), records.leaves(), n, 0, done, kAtOnce, nullptr);
  };
  EXPECT_THROW(put([](std::uint64_t id) { return Lengths{id == 2 ? 25u : 1u, 0}; }, 3),
               std::invalid_argument);
  EXPECT_THROW(put([](std::uint64_t) { return Lengths{23, 1}; }, 1),
               std::invalid_argument);
  EXPECT_EQ(buffer.tail(), 0u);
  EXPECT_EQ(put([](std::uint64_t) { return Lengths{24, 0}; }, 3), Status::kOk);

  BufferOptions bounded = options;
  bounded.lengths.fields[1].max_length = 2;
  Buffer other(bounded);
  const Records records({0}, [](std::uint64_t) { return Lengths{0, 3}; });
  EXPECT_THROW(static_cast<void>(other.put(records.leaves())), std::invalid_argument);
}

TEST(RaggedBuffer, RefusesOffsetsThatDecreaseAndNoValues) {
  Buffer buffer(of_lengths(16, 4, {2, 1}, 4096));
  const std::uint64_t id = 0;
  const std::uint32_t tokens[8] = {};
  const std::int64_t down[] = {4, 1}, up[] = {0, 2}, negative[] = {-2, 0};
  const auto refuses = [&](const SourceLeaf& token_leaf, const SourceLeaf& point_leaf) {
    const SourceLeaf leaves[] = {SourceLeaf::of(&id), token_leaf, point_leaf};
    EXPECT_THROW(static_cast<void>(buffer.put(leaves, kAtOnce)), std::invalid_argument);
  };
  const auto none = SourceLeaf::of_rows<std::uint16_t>(nullptr, 0, 3);
  refuses(SourceLeaf::of_offsets(tokens, down), none);
  // Twelve bytes less, and twelve more.
  refuses(
      SourceLeaf::of_offsets(tokens, down),
      SourceLeaf::of_offsets(reinterpret_cast<const std::uint16_t*>(tokens), up, 3));
  refuses(SourceLeaf::of_offsets(tokens, negative), none);
  refuses(SourceLeaf::of_rows<std::uint32_t>(nullptr, 2), none);
  EXPECT_EQ(buffer.tail(), 0u);
  const SourceLeaf empty[] = {SourceLeaf::of(&id),
                              SourceLeaf::of_rows<std::uint32_t>(nullptr, 0), none};
  EXPECT_EQ(buffer.put(empty, kAtOnce), Status::kOk) << "nothing is read";
}

TEST(RaggedBuffer, RefusesWholeBatchesThatAreNone) {
  constexpr std::uint64_t kExamples = 5;  // of a batch, at most
  BufferOptions options = of_lengths(4, 1, {1, 1}, 400);
  options.fields[0].rows = options.lengths.examples = kExamples;
  options.lengths.fields[0].max_length = 6;
  Buffer buffer(options);
  const std::uint64_t ids[kExamples + 1] = {};
  const std::uint32_t tokens[200] = {};
  const std::uint16_t points[3] = {};
  const std::int64_t good[] = {0, 2, 4, 4, 4, 4, 4};
  const SourceLeaf of_ids = SourceLeaf::of(ids, 2);
  const SourceLeaf two = SourceLeaf::of_batch(tokens, good, 2);
  const std::int64_t zeros[kExamples + 2] = {};
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
  refuses(SourceLeaf::of_batch(tokens, good, kExamples + 1), kExamples + 1);
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

TEST(RaggedBuffer, LosesNothingWhenAPutOrADrawTimesOut) {
  const BufferOptions options = of_lengths(16, 5, {2, 1}, 2 * 30 * kTokenBytes);
  const LengthsOf lengths = some_lengths(30);
  Buffer buffer(options);
  const Records records(range(0, 90), lengths);
  std::uint64_t done = 0;
  std::vector<Ids> batches;
  for (Status status = Status::kOk; status != Status::kFinished;) {
    const Deadline soon = Clock::now() + std::chrono::microseconds(50);
    if (done < 90)
      buffer.put(buffer.term(), records.leaves(), 90, 0, done, soon, nullptr);
    if (done == 90) buffer.close();
    Batch batch;
    status = buffer.next(batch, done % 2 ? kAtOnce : soon);
    if (status == Status::kOk) batches.push_back(read_batch(batch, options, lengths));
  }
  Buffer patient(options);
  EXPECT_EQ(batches, serve(patient, 90, lengths).batches);
}

TEST(RaggedBuffer, CountsItsMemory) {
  const BufferOptions options = of_lengths(256, 16, {4, 1}, 1 << 20);
  Buffer buffer(options);
  const BufferNeeds needs = Buffer::needs(options);
  EXPECT_GE(buffer.stats().bytes, 1u << 20);
  EXPECT_LE(buffer.stats().bytes, needs.slots * needs.bytes_per_slot + needs.more +
                                      needs.batches * needs.bytes_per_batch);
}

TEST(RaggedBuffer, WritesOnlyWhereItCountsMemory) {
  // Shares have room for ten times the largest record that comes.
  constexpr std::uint64_t kMost = 200;
  for (const Ratio factor : {Ratio{1, 1}, Ratio{3, 1}, Ratio{5, 2}}) {
    const BufferOptions options = of_lengths(
        60, 8, factor, factor.ceil() * 10 * kMost * (kTokenBytes + kPointBytes));
    Buffer buffer(options);
    const auto& backend = buffer.backend();
    const LengthsOf lengths = some_lengths(kMost);
    std::uint64_t reached = 0, all = 0;
    for (std::uint64_t n = 0; n < 4000;) {
      const std::uint64_t end = put_what_fits(buffer, n, 4000, lengths);
      Batch batch;
      if (end == n) {
        ASSERT_EQ(buffer.next(batch, kAtOnce), Status::kOk);
      }
      for (; n < end; ++n) all += lengths(n).bytes();
      for (std::uint64_t slot = 0; slot < backend.ring.capacity(); ++slot)
        for (std::size_t f = 0; f < 2; ++f) {
          const RowsTable::Rows& rows = backend.store.table()->rows(slot, f);
          reached = std::max(
              reached, rows.offset + rows.count * (f == 0 ? kTokenBytes : kPointBytes));
        }
    }
    const std::size_t counted =
        backend.store.payload()->used_bytes(backend.measure.wrap_from);
    EXPECT_LE(reached, counted);
    EXPECT_LT(counted, backend.measure.size.bytes());
    EXPECT_GT(all, 3 * counted) << "went around";
  }
}

}  // namespace
