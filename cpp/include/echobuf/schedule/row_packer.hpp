// Packing examples of different lengths into rows of one length: where each goes. No
// threads, no memory but its own, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace echobuf {

/// The values, and the examples, in a row.
struct PackedRow {
  std::uint64_t used = 0;
  std::uint32_t segments = 0;

  bool operator==(const PackedRow&) const = default;
};

/// The rows of a packing that were begun last, the oldest first; null: there is none.
using OpenRows = std::shared_ptr<const std::vector<PackedRow>>;

/// First fit among the rows created last: an example goes to the oldest of them with
/// room for it, else into a new row. A row is closed once kOpen rows were created after
/// it. So where an example goes depends on the lengths before it alone.
class RowPacker {
 public:
  /// A row that was begun, and what is in it.
  using Row = PackedRow;

  static constexpr std::uint64_t kOpen = 64;

  struct Place {
    std::uint64_t row;
    std::uint64_t at;       // of its first value
    std::uint32_t segment;  // examples of the row before it, and this one
  };

  explicit RowPacker(std::uint64_t length) : length_(length) { begin({}); }

  /// Starts again, with row 0. `before`: the rows before it, the oldest first, that may
  /// still have room: see last().
  void begin(const std::vector<Row>& before) {
    rows_.assign(kOpen, {length_, 0});
    count_ = 0;
    for (std::size_t i = 0; i < before.size() && i < kOpen; ++i)
      rows_[kOpen - before.size() + i] = before[i];
  }

  /// Puts nothing more into rows from before begin().
  void close_before() {
    for (std::uint64_t row = count_; row < kOpen; ++row)
      rows_[slot(static_cast<std::int64_t>(row))].used = length_;
  }

  /// Rows created since begin().
  std::uint64_t rows() const { return count_; }
  /// Rows from begin() on up to the first that may still get an example.
  std::uint64_t closed() const {
    std::uint64_t row = count_ > kOpen ? count_ - kOpen : 0;
    while (row < count_ && at(row).used == length_) ++row;
    return row;
  }

  /// The row of the next example, of at most the length of a row: rows() if it is new.
  /// Negative: one from before begin().
  std::int64_t next_row(std::uint64_t length) const {
    const auto end = static_cast<std::int64_t>(count_);
    for (auto row = end - static_cast<std::int64_t>(kOpen); row < end; ++row) {
      const Row& open = rows_[slot(row)];
      if (open.used < length_ && open.used + length <= length_) return row;
    }
    return end;
  }

  /// Puts it there.
  Place place(std::int64_t row, std::uint64_t length) {
    if (row == static_cast<std::int64_t>(count_)) rows_[slot(row)] = {}, ++count_;
    Row& open = rows_[slot(row)];
    const Place place{static_cast<std::uint64_t>(row), open.used, ++open.segments};
    open.used += length;
    return place;
  }

  /// A row that was created last, or among the kOpen before.
  const Row& at(std::uint64_t row) const {
    return rows_[slot(static_cast<std::int64_t>(row))];
  }

  /// The rows created last, the oldest first: begin() goes on from them.
  std::vector<Row> last() const {
    std::vector<Row> rows;
    const auto end = static_cast<std::int64_t>(count_);
    for (auto row = end - static_cast<std::int64_t>(kOpen); row < end; ++row)
      rows.push_back(rows_[slot(row)]);
    return rows;
  }

 private:
  static std::size_t slot(std::int64_t row) {
    return static_cast<std::uint64_t>(row) % kOpen;
  }

  std::uint64_t length_;
  std::vector<Row> rows_;  // of the kOpen rows created last, before begin() too
  std::uint64_t count_ = 0;
};

}  // namespace echobuf
