#include "echobuf/store/slots.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <vector>

#include "echobuf/draw/gather.hpp"
#include "support.hpp"

namespace {

using echobuf::RecordLayout;
using echobuf::Slots;
using echobuf::SlotView;
using echobuf::SourceLeaf;

TEST(Slots, TakesRowsWithAnyStrideAndWrapsAround) {
  constexpr std::uint64_t kCapacity = 7;
  Slots store(RecordLayout({{3, 1}, {8, 1}}), kCapacity);
  std::vector<std::byte> small(3 * 40), large(24 * 40);
  for (std::size_t i = 0; i < small.size(); ++i) small[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<std::byte>(i * 5);
  // The second leaf lies backwards, 24 bytes apart.
  const SourceLeaf leaves[] = {{small.data(), 3}, {large.data() + 24 * 39, -24}};
  std::uint64_t slot = 4;
  for (std::uint64_t from = 0; from < 35; from += 5) {
    store.write(slot, 5, leaves, from, 0);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const SlotView view = store.view(slot);
      const std::byte* record = view.slots + view.slot(static_cast<std::uint32_t>(i)) *
                                                 store.layout().stride();
      ASSERT_EQ(std::memcmp(record, &small[3 * (from + i)], 3), 0);
      ASSERT_EQ(std::memcmp(record + 16, &large[24 * (39 - from - i)], 8), 0);
    }
    slot = (slot + 5) % kCapacity;
  }
}

TEST(Slots, TakesLargeRecordsWhereTheCachesCannotHoldTheWindow) {
  constexpr std::size_t kBytes = echobuf::kStreamRow * 3 + 1;
  constexpr std::uint64_t kCapacity = echobuf::kStreamInto / kBytes + 1;
  Slots store(RecordLayout({{kBytes, 1}, {1, 1}}), kCapacity);
  std::vector<std::byte> large(kBytes * 3), small(3);
  for (std::size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<std::byte>(i * 7 + i / kBytes);
  for (std::size_t i = 0; i < 3; ++i) small[i] = static_cast<std::byte>(40 + i);
  const SourceLeaf leaves[] = {{large.data(), kBytes}, {small.data(), 1}};
  store.write(kCapacity - 2, 3, leaves, 0, 0);
  const SlotView view = store.view(kCapacity - 2);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::byte* record = view.slots + view.slot(i) * store.layout().stride();
    EXPECT_EQ(std::memcmp(record, &large[kBytes * i], kBytes), 0);
    EXPECT_EQ(record[store.layout().fields()[1].offset], small[i]);
  }
}

TEST(Slots, TakesRecordsOfWholeLinesWhereTheCachesCannotHoldTheWindow) {
  constexpr std::size_t kBytes = 192;
  constexpr std::uint64_t kCapacity = echobuf::kStreamInto / (3 * kBytes) + 1;
  constexpr std::uint64_t kCount = echobuf::kStreamPut / kBytes;
  Slots store(RecordLayout({{kBytes, 1}, {2 * kBytes, 1}}), kCapacity);
  ASSERT_TRUE(store.layout().fills_lines());
  EXPECT_FALSE(RecordLayout({{kBytes, 1}, {8, 1}}).fills_lines());
  EXPECT_FALSE(
      RecordLayout(std::vector<echobuf::FieldShape>(17, {128, 1})).fills_lines());
  std::vector<std::byte> source(3 * kBytes * kCount + 1);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 7 + i / kBytes);
  const std::byte* const first = source.data() + 1;  // unaligned
  const std::byte* const second = first + kBytes * kCount;
  const SourceLeaf leaves[] = {{first, kBytes}, {second, 2 * kBytes}};
  store.write(kCapacity - 2, kCount, leaves, 0, 0);
  const SlotView view = store.view(kCapacity - 2);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::byte* record = view.slots + view.slot(i) * store.layout().stride();
    EXPECT_EQ(std::memcmp(record, first + i * kBytes, kBytes), 0);
    EXPECT_EQ(std::memcmp(record + kBytes, second + 2 * i * kBytes, 2 * kBytes), 0);
  }
}

TEST(Slots, KeepsTheLengthOfRaggedRecords) {
  constexpr std::size_t kMost = 5;
  Slots store(RecordLayout({{8, kMost}, {1, kMost}}, kMost), 3);
  const std::vector<std::uint64_t> wide = {10, 11, 12, 13, 14};
  const std::vector<std::uint8_t> narrow = {1, 2, 3, 4, 5};
  const SourceLeaf leaves[] = {{reinterpret_cast<const std::byte*>(wide.data()), 0},
                               {reinterpret_cast<const std::byte*>(narrow.data()), 0}};
  for (std::size_t rows = 0; rows <= kMost; ++rows) {
    const std::uint64_t slot = rows % 3;
    store.write(slot, 1, leaves, 0, rows);
    std::vector<std::uint64_t> got_wide(kMost, 99);
    std::vector<std::uint8_t> got_narrow(kMost, 99);
    std::byte* const targets[] = {reinterpret_cast<std::byte*>(got_wide.data()),
                                  reinterpret_cast<std::byte*>(got_narrow.data())};
    ASSERT_EQ(gather_whole_batch({{0, 8, 0}, {store.layout().fields()[1].offset, 1, 1}},
                                 store, slot, targets),
              rows);
    for (std::size_t i = 0; i < kMost; ++i) {
      ASSERT_EQ(got_wide[i], i < rows ? wide[i] : 99);
      ASSERT_EQ(got_narrow[i], i < rows ? narrow[i] : 99);
    }
  }
}

TEST(Slots, GathersLargeRaggedRecordsPastTheCaches) {
  const std::size_t rows = echobuf::kStreamFrom / 8 + 5;
  Slots store(RecordLayout({{8, rows}}, rows), 1);
  std::vector<std::uint64_t> wide(rows), got(rows);
  for (std::size_t i = 0; i < rows; ++i) wide[i] = i * i;
  const SourceLeaf leaf{reinterpret_cast<const std::byte*>(wide.data()), 0};
  store.write(0, 1, &leaf, 0, rows);
  auto* const target = reinterpret_cast<std::byte*>(got.data());
  gather_whole_batch({{0, 8, 0}}, store, 0, &target);
  EXPECT_EQ(got, wide);
}

TEST(Slots, CountsItsBytes) {
  const RecordLayout plain({{3, 1}, {8, 1}}), in_batches({{8, 5}}, 5);
  EXPECT_EQ(Slots::bytes(plain, 10), 10 * plain.stride());
  EXPECT_GT(Slots::bytes(in_batches, 10), 10 * in_batches.stride());
}

TEST(Slots, RefusesASizeThatPassesSixtyFourBits) {
  // 2^44 records of 2^21 bytes are 2^65: a product that wraps would be a small block,
  // and every write into it a write somewhere else.
  const RecordLayout layout({{std::size_t{1} << 21, 1}}, false);
  EXPECT_THROW(Slots store(layout, std::uint64_t{1} << 44), std::bad_alloc);
}

}  // namespace
