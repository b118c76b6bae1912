#include "echobuf/store/record.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "echobuf/draw/batch_layout.hpp"

namespace {

using echobuf::BatchLayout;
using echobuf::Field;
using echobuf::FieldShape;
using echobuf::RecordLayout;
using echobuf::round_up;

const std::vector<std::vector<FieldShape>> kRecordShapes = {
    {{1, 1}},
    {{0, 1}},
    {{16, 1}},
    {{17, 1}, {1, 1}, {3, 5}},
    {{8, 0}, {4, 1}},
    {{150528, 1}, {8, 1}},
    {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {15, 1}, {31, 3}},
};

TEST(RecordLayout, PutsFieldsOneBehindAnotherAtSixteenBytes) {
  for (const auto& shapes : kRecordShapes) {
    const RecordLayout layout(shapes, false);
    ASSERT_EQ(layout.fields().size(), shapes.size());
    std::size_t end = 0;
    for (std::size_t f = 0; f < shapes.size(); ++f) {
      const Field& field = layout.fields()[f];
      EXPECT_EQ(field.offset % echobuf::kFieldAlignment, 0u);
      EXPECT_GE(field.offset, end);
      EXPECT_LT(field.offset, end + echobuf::kFieldAlignment) << "no gaps";
      EXPECT_EQ(field.bytes(), shapes[f].row_bytes * shapes[f].rows);
      end = field.offset + field.bytes();
    }
    EXPECT_EQ(layout.stride() % echobuf::kFieldAlignment, 0u);
    EXPECT_GE(layout.stride(), end);
    EXPECT_GT(layout.stride(), 0u) << "records of no bytes take slots too";
    EXPECT_LE(layout.stride(), round_up(end ? end : 1, echobuf::kFieldAlignment));
  }
}

TEST(BatchLayout, PutsLeavesOneBehindAnotherAtSixtyFourBytes) {
  for (const auto& shapes : kRecordShapes)
    for (const std::size_t batch_size : {1u, 2u, 3u, 100u}) {
      const RecordLayout record(shapes, false);
      const BatchLayout layout(record, {}, batch_size);
      ASSERT_EQ(layout.leaves(), shapes.size());
      std::size_t end = 0;
      for (std::size_t f = 0; f < shapes.size(); ++f) {
        EXPECT_EQ(layout.offset(f) % echobuf::kLeafAlignment, 0u);
        EXPECT_GE(layout.offset(f), end);
        end = layout.offset(f) + record.fields()[f].bytes() * batch_size;
      }
      EXPECT_GE(layout.bytes(), end);
      EXPECT_GT(layout.bytes(), 0u);
    }
}

TEST(RoundUp, GivesTheNextMultiple) {
  for (std::size_t value = 0; value < 200; ++value)
    for (const std::size_t multiple : {1u, 16u, 64u}) {
      EXPECT_EQ(round_up(value, multiple) % multiple, 0u);
      EXPECT_GE(round_up(value, multiple), value);
      EXPECT_LT(round_up(value, multiple), value + multiple);
    }
}

}  // namespace
