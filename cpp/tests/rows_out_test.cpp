// Batches of records that differ in length, drawn into memory of the caller's.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

constexpr std::byte kUntouched{0x5C};
constexpr std::size_t kRowBytes[] = {8, kTokenBytes, kPointBytes};

/// Memory for batches of up to `room` records, with so many rows in a ragged leaf.
struct RowsMemory {
  RowsMemory(const BufferOptions& options, std::uint64_t room,
             std::vector<std::uint64_t> rows)
      : packed(options.lengths.form == LengthOptions::Form::kPacked) {
    target.room = room;
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      const std::uint64_t all = leaf == 0 ? room : rows[leaf] * (packed ? 1 : room);
      values[leaf].assign(all * kRowBytes[leaf] + 1, kUntouched);
      index[leaf].assign(room + 1, -1);
      target.leaves.push_back({values[leaf].data(),
                               reinterpret_cast<std::byte*>(index[leaf].data()),
                               leaf == 0 ? 0 : rows[leaf]});
    }
  }

  /// The batch, in a block of its own, with as many rows as `like` has.
  Batch batch(const Batch& like) const {
    Batch made;
    made.count = target.count;
    made.places = like.places;
    std::size_t bytes = 0;
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      made.places[leaf].values = bytes;
      bytes += values[leaf].size() + 8 * (made.count + 1) + 16;
      made.places[leaf].index =
          round_up(made.places[leaf].values + values[leaf].size(), 8);
      bytes = round_up(bytes, 8);
    }
    made.block = std::make_shared<BatchPool>(bytes, 1)->take(bytes);
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      const std::uint64_t pieces = leaf == 0 || packed ? 1 : made.count;
      const std::uint64_t rows = leaf == 0 ? made.count : like.places[leaf].rows;
      for (std::uint64_t i = 0; i < pieces && rows > 0; ++i)
        std::memcpy(
            made.block.data() + made.places[leaf].values + i * rows * kRowBytes[leaf],
            values[leaf].data() + i * target.leaves[leaf].rows * kRowBytes[leaf],
            rows * kRowBytes[leaf]);
      std::memcpy(made.block.data() + made.places[leaf].index, index[leaf].data(),
                  8 * (made.count + 1));
    }
    return made;
  }

  bool packed;
  RowsTarget target;
  std::vector<std::byte> values[3];
  std::vector<std::int64_t> index[3];
};

class RowsOutTest : public testing::TestWithParam<std::uint64_t> {};

/// Two buffers are put the same records; one draws into memory with room, and first,
/// now and then, into memory with a row less.
TEST_P(RowsOutTest, BatchesAreThoseOfNext) {
  std::mt19937_64 random(GetParam());
  BufferOptions options = of_lengths(12, 5, {2, 1}, 1500);
  options.prefetch = random() % 3;
  options.lengths.pad_to = 1 + random() % 2 * 3;
  if (random() % 2 == 0) options.lengths.form = LengthOptions::Form::kPadded;
  for (RaggedField& field : options.lengths.fields)
    if (random() % 2 == 0) field.pad.assign(2, std::byte{0xA7});
  const LengthsOf lengths = some_lengths(20, GetParam());
  Buffer plain(options);
  Buffer buffer(options);
  std::uint64_t fresh[2] = {0, 0};
  std::uint64_t batches = 0;
  for (;;) {
    Buffer* const both[] = {&plain, &buffer};
    for (int i = 0; i < 2; ++i) {
      fresh[i] = put_what_fits(*both[i], fresh[i], 61, lengths);
      if (fresh[i] == 61) both[i]->close();
    }
    Batch wanted;
    const auto next = [&](Deadline deadline) { return plain.next(wanted, deadline); };
    const Status status = plain.prefetches() ? promptly(next) : next(kAtOnce);
    if (status == Status::kTimeout) continue;
    if (status == Status::kFinished) break;
    ASSERT_EQ(status, Status::kOk);
    ++batches;
    std::vector<std::uint64_t> rows(3), more;
    for (std::size_t leaf = 1; leaf < 3; ++leaf) rows[leaf] = wanted.places[leaf].rows;
    const auto draw = [&](RowsMemory& memory) {
      for (;;) {
        fresh[1] = put_what_fits(buffer, fresh[1], 61, lengths);
        if (fresh[1] == 61) buffer.close();
        const Status drawn = buffer.next_rows(
            memory.target, Clock::now() + std::chrono::milliseconds(20));
        if (drawn != Status::kTimeout) return drawn;
      }
    };
    if (random() % 2 == 0 && rows[1] > 0) {
      std::vector<std::uint64_t> fewer = rows;
      --fewer[1];
      RowsMemory small(options, options.batch_size, fewer);
      ASSERT_EQ(draw(small), Status::kResize);
      EXPECT_EQ(small.target.needed, rows);
      for (const std::byte byte : small.values[1]) ASSERT_EQ(byte, kUntouched);
    }
    more = rows;
    for (std::uint64_t& leaf : more) leaf += random() % 4;
    RowsMemory memory(options, options.batch_size + random() % 2, more);
    ASSERT_EQ(draw(memory), Status::kOk);
    EXPECT_EQ(memory.target.count, wanted.count);
    EXPECT_EQ(read_batch(memory.batch(wanted), options, lengths),
              read_batch(wanted, options, lengths));
    for (const auto& leaf : memory.values) EXPECT_EQ(leaf.back(), kUntouched);
  }
  EXPECT_GT(batches, 20u);
  EXPECT_EQ(buffer.stats().served, plain.stats().served);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RowsOutTest,
                         testing::Range(std::uint64_t{0}, std::uint64_t{12}));

}  // namespace
