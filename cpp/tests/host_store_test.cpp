#include "echobuf/store/host_store.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "echobuf/buffer/payload_measure.hpp"
#include "ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

TEST(PayloadSize, HasRoomInUnitsThatClaimsCanCount) {
  for (std::uint64_t bytes = 1; bytes < std::uint64_t{1} << 60; bytes = bytes * 3 + 1) {
    const PayloadSize size = PayloadSize::of(bytes);
    ASSERT_GE(size.bytes(), bytes);
    ASSERT_LE(size.bytes(), bytes + size.unit);
    ASSERT_LE(size.units, Claims::kMostUnits);
    ASSERT_EQ(size.unit % kFieldAlignment, 0u);
  }
  EXPECT_THROW(PayloadSize::of((std::uint64_t{1} << 60) + 1), std::bad_alloc);
}

TEST(HostStore, KeepsTheRowsOfEachRecordInItsPlace) {
  for (const std::uint64_t unit : {16, 64}) {
    constexpr std::uint64_t kCapacity = 6;
    const PayloadSize size{unit, 4096 / unit};
    const RecordLayout layout({{8, 1}, {0, 0}, {0, 0}}, false);
    const BufferOptions options = of_lengths(6, 1, {1, 1}, 4096);
    HostStore store(layout, kCapacity, size, options.lengths.fields);
    Claims claims({.capacity = kCapacity, .units = size.units});
    const LengthsOf lengths = some_lengths(60);
    const Ids ids = range(0, 300);
    const Records records(ids, lengths);
    std::uint64_t place = 0, laps = 0;
    for (const std::uint64_t id : ids) {
      const std::uint64_t units = store.table()->units_of(records.leaves(), id);
      ASSERT_GE(units * unit, lengths(id).bytes());
      ASSERT_LT(units * unit, lengths(id).bytes() + 2 * kFieldAlignment + unit);
      const std::uint64_t start = claims.take(place, units);
      laps += start > 0 && start % size.units == 0;
      store.write({id, id % kCapacity, claims.cursor(start)}, records.leaves(), id,
                  nullptr);
      // The last records still are what they were.
      for (std::uint64_t last = id < 3 ? 0 : id - 3; last <= id; ++last) {
        const std::uint64_t slot = last % kCapacity;
        std::uint64_t number = 0;
        std::memcpy(&number, store.slots().record(slot), 8);
        ASSERT_EQ(number, last);
        ASSERT_EQ(store.table()->bytes_of(slot), lengths(last).bytes());
        for (std::uint64_t f = 0; f < 2; ++f) {
          const RowsTable::Rows& rows = store.table()->rows(slot, f);
          ASSERT_EQ(rows.count, f == 0 ? lengths(last).tokens : lengths(last).points);
          ASSERT_EQ(rows.offset % kFieldAlignment, 0u);
          const std::uint64_t bytes = rows.count * store.table()->fields()[f].row_bytes;
          ASSERT_LE(rows.offset + bytes, size.bytes());
          ASSERT_TRUE(bytes == 0 || std::memcmp(&store.payload()->data()[rows.offset],
                                                field_bytes(last, f), bytes) == 0);
        }
      }
    }
    EXPECT_GE(laps, 3u) << "went around";
  }
}

TEST(HostStore, ReadsRecordsOfOneExampleAndOfMany) {
  const RecordLayout layout({{0, 0}}, false);
  HostStore store(layout, 4, {16, 64}, {{0, 4}});
  Claims claims({.capacity = 4, .units = 64});
  const std::uint32_t tokens[] = {1, 2, 3, 4, 5, 6};
  const std::int64_t offsets[] = {1, 1, 4, 6};
  const SourceLeaf many = SourceLeaf::of_offsets(tokens, offsets);
  const SourceLeaf one = SourceLeaf::of_rows(tokens + 2, 3);
  std::uint64_t place = 0;
  const auto write = [&](std::uint64_t position, const SourceLeaf& leaf,
                         std::uint64_t i) {
    const std::uint64_t start = claims.take(place, store.table()->units_of(&leaf, i));
    store.write({position, position % 4, claims.cursor(start)}, &leaf, i, nullptr);
  };
  for (std::uint64_t i = 0; i < 3; ++i) write(i, many, i);
  write(3, one, 0);
  const std::vector<std::uint32_t> expected[] = {{}, {2, 3, 4}, {5, 6}, {3, 4, 5}};
  for (std::uint64_t slot = 0; slot < 4; ++slot) {
    const RowsTable::Rows& rows = store.table()->rows(slot, 0);
    std::vector<std::uint32_t> got(rows.count);
    if (rows.count > 0)
      std::memcpy(got.data(), store.payload()->data() + rows.offset, rows.count * 4);
    EXPECT_EQ(got, expected[slot]);
  }
}

TEST(PayloadMeasure, HasRoomForTheWindowAndWhatIsBeingFilled) {
  for (const Ratio factor : {Ratio{1, 1}, Ratio{4, 1}, Ratio{5, 2}})
    for (const std::uint64_t payload : {100'000, 5'000'000}) {
      const BufferOptions options = of_lengths(600, 8, factor, payload);
      const PayloadMeasure measure(options);
      EXPECT_EQ(measure.share, payload / factor.ceil());
      EXPECT_EQ(measure.most, measure.share);
      EXPECT_GE(measure.size.bytes(), payload + 2 * measure.share);
      BufferOptions bounded = options;
      bounded.lengths.fields[0].max_length = 20;
      bounded.lengths.fields[1].max_length = 5;
      EXPECT_EQ(PayloadMeasure(bounded).most, 20 * kTokenBytes + 5 * kPointBytes);
      EXPECT_LT(PayloadMeasure(bounded).size.bytes(), measure.size.bytes());
    }
}

TEST(PayloadMeasure, OfMoreThanAnyMemoryIsRefused) {
  for (const std::uint64_t much :
       {std::uint64_t{1} << 61, ~std::uint64_t{0}, ~std::uint64_t{0} / 3}) {
    const BufferOptions options = of_lengths(600, 8, {4, 1}, much);
    EXPECT_THROW(Buffer::needs(options), std::bad_alloc);
    EXPECT_THROW(Buffer{options}, std::bad_alloc);
    BufferOptions bounded = of_lengths(600, 8, {4, 1}, 0);
    bounded.lengths.fields[0].max_length = much;
    bounded.lengths.fields[1].max_length = 1;
    EXPECT_THROW(Buffer::needs(bounded), std::bad_alloc);
  }
}

}  // namespace
