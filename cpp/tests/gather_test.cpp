#include "echobuf/draw/gather.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "support.hpp"

namespace {

using echobuf::Field;
using echobuf::FieldShape;
using echobuf::RecordLayout;
using echobuf::SlotView;

std::byte gathered_byte(std::uint64_t slot, std::size_t offset) {
  return static_cast<std::byte>(slot * 131 + offset * 7 + offset / 251);
}

std::vector<FieldShape> shapes_of_all_kinds() {
  std::vector<FieldShape> shapes;
  for (const std::size_t bytes :
       {0u,  1u,  2u,   3u,   4u,   7u,   8u,    12u,   16u,   24u,
        32u, 48u, 136u, 240u, 256u, 272u, 1000u, 1024u, 1040u, 3000u})
    shapes.push_back({bytes, 1});
  shapes.push_back({5, 7});
  return shapes;
}

/// Records of no large field, of a large one first, last, and of nothing else.
std::vector<std::vector<FieldShape>> records_of_all_kinds() {
  return {shapes_of_all_kinds(),
          {{32, 4}, {1, 8}, {7, 1}},
          std::vector<FieldShape>(20, {120, 1}),
          {{1, 12289}, {1, 8}},
          {{1, 8}, {1, 12289}, {3, 1}},
          {{1, 2048}},
          {{1, 70000}, {1, 8}},
          {{4, 1024}, {4, 5000}}};
}

class Gather : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(StreamingOrNot, Gather, testing::Bool());

void expect_every_field_in_its_row(const std::vector<FieldShape>& shapes, bool stream) {
  constexpr std::uint64_t kCapacity = 50;
  constexpr std::size_t kRows = 41;
  const RecordLayout layout(shapes, false);
  std::vector<std::byte> slots(kCapacity * layout.stride());
  for (std::size_t i = 0; i < slots.size(); ++i)
    slots[i] = gathered_byte(i / layout.stride(), i % layout.stride());
  std::vector<std::uint32_t> order(kRows - 2);
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::uint32_t>(i * 17 % 43);
  for (const std::uint64_t first : {0u, 1u, 30u, 49u}) {  // the last ones wrap around
    std::vector<std::vector<std::byte>> leaves;
    std::vector<std::byte*> pointers;
    pointers.reserve(layout.fields().size());
    for (const Field& field : layout.fields())
      leaves.emplace_back(field.bytes() * kRows + 1, std::byte{0xEE});
    for (auto& leaf : leaves) pointers.push_back(leaf.data());
    const SlotView view{slots.data(), kCapacity, first};
    gather_records(copied_fields(layout, echobuf::BatchLayout(layout, {}, kRows)),
                   layout.stride(), view, order.data(), order.size(), pointers.data(),
                   1, stream);
    echobuf::finish_streaming();
    for (std::size_t f = 0; f < leaves.size(); ++f) {
      const Field& field = layout.fields()[f];
      std::vector<std::byte> expected(leaves[f].size(), std::byte{0xEE});
      for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t b = 0; b < field.bytes(); ++b)
          expected[(i + 1) * field.bytes() + b] =
              gathered_byte((first + order[i]) % kCapacity, field.offset + b);
      ASSERT_EQ(leaves[f], expected) << "field of " << field.bytes() << " bytes";
    }
  }
}

TEST_P(Gather, PutsEveryFieldOfEveryRecordInItsRow) {
  for (const auto& shapes : records_of_all_kinds()) {
    expect_every_field_in_its_row(shapes, GetParam());
    if (HasFatalFailure()) return;
  }
}

TEST(CopyField, TouchesItsBytesAlone) {
  std::vector<std::byte> from(700), to(700);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = gathered_byte(1, i);
  for (std::size_t bytes = 0; bytes <= 600; ++bytes) {
    std::fill(to.begin(), to.end(), std::byte{0xEE});
    echobuf::detail::copy_field(to.data() + 16, from.data() + 16, bytes);
    ASSERT_TRUE(std::equal(to.begin() + 16, to.begin() + 16 + static_cast<int>(bytes),
                           from.begin() + 16));
    ASSERT_EQ(to[15], std::byte{0xEE});
    ASSERT_EQ(to[16 + bytes], std::byte{0xEE});
  }
}

}  // namespace
