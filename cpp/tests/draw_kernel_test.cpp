#include "echobuf/draw/draw_kernel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "echobuf/cuda/draw_launch.hpp"
#include "echobuf/cuda/plan.hpp"
#include "threads_at_once.hpp"

namespace {

using echobuf::DrawPart;
using echobuf::DrawParts;
using echobuf::Field;
using echobuf::FieldShape;
using echobuf::Permutation;
using echobuf::RecordLayout;

std::byte byte_of(std::uint64_t slot, std::size_t offset) {
  return static_cast<std::byte>(slot * 131 + offset * 7 + offset / 251);
}

/// Device memory: slots, and nothing behind them that may be touched.
struct Slots {
  Slots(const RecordLayout& layout, std::uint64_t capacity)
      : stride(layout.stride()), bytes(stride * capacity + 16) {
    const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
    base = bytes.data() + (16 - address % 16) % 16;
    for (std::size_t i = 0; i < stride * capacity; ++i)
      base[i] = byte_of(i / stride, i % stride);
  }
  std::size_t stride;
  std::vector<std::byte> bytes;
  std::byte* base;
};

template <class Parts>
void run(const echobuf::cuda::DrawLaunch& launch, const Parts& parts,
         std::uint32_t count) {
  for (std::uint32_t block = 0; block < launch.blocks; ++block) {
    std::uint64_t rows[echobuf::kDrawTile];
    draw_block(echobuf::HostThreads(launch.layout.threads), launch.layout, parts, count,
               block, rows);
  }
}

template <class Parts>
void run_at_once(const echobuf::cuda::DrawLaunch& launch, const Parts& parts,
                 std::uint32_t count) {
  for (std::uint32_t block = 0; block < launch.blocks; ++block) {
    std::uint64_t rows[echobuf::kDrawTile];
    echobuf::test::run_at_once(launch.layout.threads, [&](const auto& threads) {
      draw_block(threads, launch.layout, parts, count, block, rows);
    });
  }
}

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

/// The same rows in parts of 1, 2, 3, ... records.
std::vector<DrawPart> cut(DrawPart whole) {
  std::vector<DrawPart> parts;
  for (std::uint32_t done = 0; done < whole.count;) {
    DrawPart part = whole;
    part.row += done;
    part.offset += done;
    part.count = std::min<std::uint32_t>(static_cast<std::uint32_t>(parts.size()) + 1,
                                         whole.count - done);
    done += part.count;
    parts.push_back(part);
  }
  return parts;
}

/// The memory of a plan, as the kernel writes it.
std::vector<std::uint64_t> plan_of(const std::vector<DrawPart>& parts) {
  std::vector<std::uint64_t> memory(echobuf::DrawPlan::bytes(parts.size()) / 8);
  echobuf::cuda::for_launches(parts, {}, [&](const DrawParts& launch) {
    for (std::uint32_t t = 0; t < echobuf::kDrawParts; ++t)
      write_plan(launch, address_of(memory.data()), t);
  });
  return memory;
}

struct Case {
  std::vector<std::size_t> fields;
  std::uint32_t window;
  std::uint32_t offset;
  std::uint32_t count;
  std::size_t misaligned;    // leaves begin so many bytes after a multiple of 16
  std::uint32_t blocks = 0;  // at least, if there are so many rows
};

class DrawKernel : public testing::TestWithParam<Case> {};

TEST_P(DrawKernel, PutsEveryFieldOfEveryRecordInItsRow) {
  const Case& c = GetParam();
  std::vector<FieldShape> shapes;
  for (const std::size_t bytes : c.fields) shapes.push_back({bytes, 1});
  const RecordLayout layout(shapes, false);
  const std::uint64_t capacity = c.window + 3;
  const Slots slots(layout, capacity);
  const Permutation order(c.window, echobuf::permutation_key(1, 2, 3));
  for (const std::uint64_t first : {std::uint64_t{0}, capacity - 2}) {
    constexpr std::uint64_t kRow = 2;
    std::vector<std::vector<std::byte>> leaves;
    std::vector<std::byte*> pointers;
    for (const Field& field : layout.fields()) {
      leaves.emplace_back(field.bytes() * (c.count + kRow) + 48, std::byte{0xEE});
      const auto address = reinterpret_cast<std::uint64_t>(leaves.back().data());
      pointers.push_back(leaves.back().data() + (16 - address % 16) % 16 +
                         c.misaligned);
    }
    // In parts of 1, 2, 3, ... records: as many as there are, by value and planned.
    const std::vector<DrawPart> parts = cut({.order = order,
                                             .slots = address_of(slots.base),
                                             .capacity = capacity,
                                             .first = first,
                                             .row = kRow,
                                             .offset = c.offset,
                                             .count = c.count,
                                             .partner = 0});
    const auto plan = plan_of(parts);
    std::vector<echobuf::CopiedField> fields;
    for (const Field& field : layout.fields())
      fields.push_back({field.offset, field.bytes(), fields.size()});
    const auto launch = echobuf::cuda::lay_out(layout, kRow, c.count, pointers.data(),
                                               fields, 0, c.blocks);
    run(launch, parts, static_cast<std::uint32_t>(parts.size()));
    const auto by_value = leaves;
    for (auto& leaf : leaves) std::fill(leaf.begin(), leaf.end(), std::byte{0xEE});
    const echobuf::PlannedParts planned{address_of(plan.data())};
    run(launch, planned, planned.count());
    ASSERT_EQ(leaves, by_value);
    if (launch.blocks == 1) {  // threads take long to begin
      for (auto& leaf : leaves) std::fill(leaf.begin(), leaf.end(), std::byte{0xEE});
      run_at_once(launch, planned, planned.count());
      ASSERT_EQ(leaves, by_value);
    }
    for (std::size_t f = 0; f < leaves.size(); ++f) {
      const Field& field = layout.fields()[f];
      std::vector<std::byte> expected(leaves[f].size(), std::byte{0xEE});
      const auto begin = pointers[f] - leaves[f].data();
      for (std::uint32_t i = 0; i < c.count; ++i)
        for (std::size_t b = 0; b < field.bytes(); ++b)
          expected[static_cast<std::size_t>(begin) + (i + kRow) * field.bytes() + b] =
              byte_of((first + order(c.offset + i)) % capacity, field.offset + b);
      ASSERT_EQ(leaves[f], expected) << "field of " << field.bytes() << " bytes";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, DrawKernel,
    testing::Values(Case{{128, 8}, 1000, 17, 300, 0}, Case{{128, 8}, 1000, 17, 300, 4},
                    Case{{1}, 100, 0, 100, 0}, Case{{1, 2, 4, 8, 16}, 50, 3, 40, 0},
                    Case{{3, 5, 7, 15, 17, 31, 33}, 70, 1, 69, 0},
                    Case{{3, 5, 7, 15, 17, 31, 33}, 70, 1, 69, 9},
                    Case{{0, 24, 0}, 10, 0, 10, 0}, Case{{0}, 10, 0, 10, 1},
                    Case{{150'528, 8}, 9, 2, 5, 0}, Case{{150'529}, 5, 0, 4, 3},
                    Case{{100'000, 12}, 3, 0, 3, 8},
                    Case{std::vector<std::size_t>(32, 40), 30, 5, 20, 0},
                    Case{{128, 8}, 1000, 17, 300, 0, 264},
                    Case{{3, 32, 8, 160, 7}, 70, 1, 69, 0, 30},
                    Case{{150'528, 8, 100'003}, 9, 2, 5, 0, 264},
                    Case{{16}, 5000, 0, 4000, 0, 8}));

TEST(DrawKernel, DrawsRecordsThatAreListed) {
  const RecordLayout layout({{24, 1}}, false);
  constexpr std::uint64_t kSlots = 50;
  const Slots slots(layout, kSlots);
  constexpr std::uint32_t kOfPass = 7;
  std::vector<std::uint32_t> list(kOfPass);  // of no use: a pass says its own
  for (std::uint32_t i = 0; i < 90; ++i) list.push_back(i * 31 % kSlots);
  const auto rows = static_cast<std::uint32_t>(list.size());
  const Permutation order(20, echobuf::permutation_key(1, 2, 3));
  DrawPart of_pass{.order = order,
                   .slots = address_of(slots.base),
                   .capacity = kSlots,
                   .first = kSlots - 3,
                   .row = 0,
                   .offset = 5,
                   .count = kOfPass,
                   .partner = 0};
  DrawPart listed = of_pass;
  listed.order = Permutation::identity(1);
  listed.capacity = 0;
  listed.first = address_of(list.data());
  listed.row = listed.offset = kOfPass;
  listed.count = rows - kOfPass;
  const std::vector<DrawPart> parts = {of_pass, listed};
  std::vector<std::byte> leaf(24 * rows + 16, std::byte{0xEE});
  std::byte* const to = leaf.data() + (16 - address_of(leaf.data()) % 16) % 16;
  const std::vector<echobuf::CopiedField> fields = {{0, 24, 0}};
  const auto launch = echobuf::cuda::lay_out(layout, 0, rows, &to, fields, 0, 8);
  run(launch, parts, 2);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint64_t slot =
        row < kOfPass ? (kSlots - 3 + order(5 + row)) % kSlots : list[row];
    for (std::size_t b = 0; b < 24; ++b)
      ASSERT_EQ(to[row * 24 + b], byte_of(slot, b)) << row;
  }
  const auto by_value = leaf;
  std::fill(leaf.begin(), leaf.end(), std::byte{0xEE});
  const auto plan = plan_of(parts);
  const echobuf::PlannedParts planned{address_of(plan.data())};
  run(launch, planned, planned.count());
  EXPECT_EQ(leaf, by_value);
}

/// A launch for `count` records of fields of so many bytes, their leaves aligned.
echobuf::cuda::DrawLaunch spread_of(const std::vector<std::size_t>& bytes,
                                    std::uint64_t count, std::uint32_t blocks) {
  std::vector<FieldShape> shapes;
  std::vector<echobuf::CopiedField> fields;
  for (const std::size_t b : bytes) shapes.push_back({b, 1});
  const RecordLayout layout(shapes, false);
  for (const Field& field : layout.fields())
    fields.push_back({field.offset, field.bytes(), fields.size()});
  const std::vector<std::byte*> leaves(bytes.size());
  return echobuf::cuda::lay_out(layout, 0, count, leaves.data(), fields, 0, blocks);
}

TEST(Spread, GivesEveryMultiprocessorWorkIfThereIsAsMuch) {
  constexpr std::uint32_t kBlocks = 264;
  const auto images = spread_of({12'288, 8}, 128, kBlocks);
  EXPECT_GE(images.blocks, kBlocks);
  EXPECT_EQ(images.layout.threads, 64);  // each asks for four words at once
  EXPECT_EQ(spread_of({128, 8}, 256, kBlocks).blocks, 256);  // a record each
  EXPECT_GE(spread_of({128, 8}, 8192, kBlocks).blocks, kBlocks);
  EXPECT_GE(spread_of({100'000'003}, 1, kBlocks).blocks, kBlocks);
  EXPECT_EQ(spread_of({8}, 1, kBlocks).blocks, 1);
}

TEST(Spread, GivesABlockNoThreadsWithoutWork) {
  EXPECT_EQ(spread_of({128, 8}, 256, 264).layout.threads, 32);
  EXPECT_EQ(spread_of({150'528, 8}, 64, 0).layout.threads, 256);
  EXPECT_EQ(spread_of({0}, 64, 0).layout.threads, 64);  // these find the rows
}

TEST(CopyWord, TouchesItsBytesAlone) {
  alignas(16) std::byte from[160];
  alignas(16) std::byte to[160];
  for (std::size_t i = 0; i < sizeof from; ++i) from[i] = byte_of(3, i);
  for (std::size_t lead = 0; lead < 16; ++lead) {
    for (std::size_t bytes = 0; bytes <= 100; ++bytes) {
      std::fill(std::begin(to), std::end(to), std::byte{0xEE});
      const auto target = reinterpret_cast<std::uint64_t>(to + 16 + lead);
      for (std::uint64_t w = 0; w < (bytes + 30) / 16; ++w)
        echobuf::copy_word(target, reinterpret_cast<std::uint64_t>(from), bytes, w);
      for (std::size_t i = 0; i < sizeof to; ++i) {
        const bool mine = i >= 16 + lead && i < 16 + lead + bytes;
        ASSERT_EQ(to[i], mine ? from[i - 16 - lead] : std::byte{0xEE});
      }
    }
  }
}

}  // namespace
