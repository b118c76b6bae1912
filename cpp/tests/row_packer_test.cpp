// Where packing puts examples, beside a slow reference that keeps all rows.
#include "echobuf/schedule/row_packer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using namespace echobuf;  // NOLINT(google-build-using-namespace)

using Row = RowPacker::Row;

/// The row of an example among all that there are.
std::size_t first_fit(std::vector<Row>& rows, std::uint64_t length,
                      std::uint64_t row_length) {
  const std::size_t open = rows.size() - std::min<std::size_t>(rows.size(), 64);
  std::size_t row = open;
  while (row < rows.size() &&
         (rows[row].used == row_length || rows[row].used + length > row_length))
    ++row;
  if (row == rows.size()) rows.emplace_back();
  rows[row].used += length;
  ++rows[row].segments;
  return row;
}

/// Lengths from 0 to `most`; of some seeds most are long, or short, or fill a row.
std::vector<std::uint64_t> lengths_up_to(std::uint64_t most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> lengths(1000);
  for (std::uint64_t& length : lengths) {
    length = random() % (most + 1);
    if (seed % 4 == 1) length = most - length / 4;
    if (seed % 4 == 2) length /= 4;
    if (seed % 4 == 3 && random() % 2) length = most;
  }
  return lengths;
}

TEST(RowPacker, PutsExamplesWhereTheReferenceDoes) {
  for (const std::uint64_t row_length : {1, 2, 7, 100})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      RowPacker packer(row_length);
      std::vector<Row> rows;
      for (const std::uint64_t length : lengths_up_to(row_length, seed)) {
        const std::uint64_t before = packer.rows();
        const std::int64_t next = packer.next_row(length);
        const RowPacker::Place place = packer.place(next, length);
        const std::size_t row = first_fit(rows, length, row_length);
        ASSERT_EQ(place.row, row);
        ASSERT_EQ(place.at, rows[row].used - length);
        ASSERT_EQ(place.segment, rows[row].segments);
        ASSERT_EQ(packer.at(row), rows[row]);
        ASSERT_EQ(packer.rows(), rows.size());
        ASSERT_LE(packer.rows(), before + 1);
      }
      if (row_length > 2) {
        ASSERT_GT(rows.size(), 64u);
      }
    }
}

TEST(RowPacker, ClosesRowsThatAreFullOrThatAreFollowedByAsManyAsMayBeOpen) {
  for (const std::uint64_t row_length : {1, 7, 100})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      RowPacker packer(row_length);
      const std::vector<std::uint64_t> lengths = lengths_up_to(row_length, seed);
      std::vector<std::uint64_t> closed_after;  // examples; of each row
      std::vector<std::uint64_t> last;          // example of each row
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto row = packer.place(packer.next_row(lengths[i]), lengths[i]).row;
        last.resize(packer.rows());
        last[row] = i;
        while (closed_after.size() < packer.closed()) closed_after.push_back(i);
        ASSERT_LE(packer.closed(), packer.rows());
        ASSERT_LE(packer.rows() - packer.closed(), RowPacker::kOpen);
      }
      for (std::size_t row = 0; row < closed_after.size(); ++row)
        ASSERT_LE(last[row], closed_after[row]) << "row " << row;
    }
}

TEST(RowPacker, GoesOnFromTheRowsBegunBefore) {
  for (const std::uint64_t row_length : {2, 7, 100})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const std::vector<std::uint64_t> lengths = lengths_up_to(row_length, seed);
      for (const std::size_t cut : {0, 1, 30, 200, 999}) {
        RowPacker whole(row_length), rest(row_length);
        for (std::size_t i = 0; i < cut; ++i)
          whole.place(whole.next_row(lengths[i]), lengths[i]);
        const std::uint64_t before = whole.rows();
        rest.begin(whole.last());
        for (std::size_t i = cut; i < lengths.size(); ++i) {
          const std::int64_t one = whole.next_row(lengths[i]);
          const std::int64_t other = rest.next_row(lengths[i]);
          ASSERT_EQ(other + static_cast<std::int64_t>(before), one);
          const auto a = whole.place(one, lengths[i]);
          const auto b = rest.place(other, lengths[i]);
          ASSERT_EQ(a.at, b.at);
          ASSERT_EQ(a.segment, b.segment);
        }
      }
    }
}

TEST(RowPacker, PutsNothingMoreIntoRowsFromBefore) {
  RowPacker packer(10);
  packer.begin({{3, 1}, {9, 2}});
  EXPECT_EQ(packer.next_row(5), -2);
  EXPECT_EQ(packer.next_row(1), -2);
  packer.close_before();
  EXPECT_EQ(packer.next_row(1), 0);
  packer.place(0, 1);
  packer.close_before();  // does not close a row that was begun since
  EXPECT_EQ(packer.next_row(9), 0);
  for (int i = 0; i < 100; ++i) packer.place(packer.next_row(9), 9);
  packer.close_before();
  EXPECT_EQ(packer.next_row(1), 36);  // of the 100 rows the first that is open
}

}  // namespace
