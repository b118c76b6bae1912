// The segments of an epoch whose records have rows: the lengths of records shape them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/segment_table.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/rows_table.hpp"

namespace echobuf {

/// The rows of a window's records; without a table they have none.
struct WindowRows {
  const RowsTable* table = nullptr;
  std::uint64_t share = 0;       // the most bytes of a segment
  std::uint64_t most_bytes = 0;  // of a record
  RowsCounts* counts = nullptr;
};

/// The table of segments, and what a loaded state says of its window. Not to be moved:
/// walks follow the table.
class RowsSegments {
 public:
  explicit RowsSegments(const WindowRows& rows)
      : rows_(*rows.table),
        counts_(*rows.counts),
        most_bytes_(rows.most_bytes),
        table_(rows.share) {}
  RowsSegments(const RowsSegments&) = delete;
  RowsSegments& operator=(const RowsSegments&) = delete;

  const RowsTable& rows() const { return rows_; }
  RowsCounts& counts() { return counts_; }

  /// From `sweep` on, in `epoch`: segments are those of its records.
  void begin(Sweep& sweep, const Epoch& epoch) {
    counts_.clear();
    table_.begin(oldest_segment(sweep), oldest_record(sweep), whole_before(sweep));
    std::visit([&](auto& s) { s.follow(&table_); }, sweep);
    window_end_ = end_segment(sweep);
    window_known_ = epoch.required_end == 0;
    strange_ = false;
    left_.reset();
  }

  /// The records of `epoch` below `committed` are known. `sweep`: what was drawn by
  /// now; `walk`: goes on from there. `slot_of`: of a record.
  template <class S, class SlotOf>
  void note(std::uint64_t committed, const Sweep& sweep, const S& walk,
            const Epoch& epoch, const SlotOf& slot_of) {
    const auto size_of = [&](std::uint64_t i) {
      return walk.schedule().segment_size(i);
    };
    while (table_.end() < committed) {
      const std::uint64_t slot = slot_of(table_.end());
      const std::uint64_t bytes = rows_.bytes_of(slot);
      if (left_ && table_.end() == epoch.required_end && bytes <= *left_)
        strange_ = true;  // it would have been in the window, too
      table_.add(bytes, size_of);
      counts_.add_fresh(rows_.examples_of(slot), rows_.rows_of(slot));
      if (!window_known_) look_at_window(sweep, epoch);
    }
  }

  /// Returns whether the records are not those of the loaded state.
  bool are_strange() const { return strange_; }

  /// Segments that `sweep` needs no more may be forgotten.
  void forget_before(const Sweep& sweep) { table_.forget(oldest_segment(sweep)); }

  /// The number of records that there are when the open segment is full at the soonest.
  std::uint64_t soonest_end(const Sweep& sweep) const {
    const std::uint64_t left =
        segment_size(sweep, table_.open()) - table_.open_records();
    if (table_.share() == SegmentTable::kUnknown || most_bytes_ == 0)
      return table_.end() + left;
    const std::uint64_t fitting =
        (table_.share() - table_.open_bytes()) / most_bytes_ + 1;
    return table_.end() + std::min(left, fitting);
  }

 private:
  /// The window of a loaded state ends where as many segments do as it had. Where the
  /// records make more of them, that is known before the ring is full.
  void look_at_window(const Sweep& sweep, const Epoch& epoch) {
    const std::uint64_t end = table_.start(window_end_);
    if (table_.end() == epoch.required_end) {
      end_window(sweep, epoch);
      if (!is_in_pass(sweep)) strange_ = true;
    }
    if (end == SegmentTable::kUnknown && table_.end() <= epoch.required_end) return;
    window_known_ = true;
    strange_ = strange_ || end != epoch.required_end;
  }

  /// All of the window of a loaded state is there. Its last segment was full then, if
  /// more came: the draws that follow must know that before more come again.
  void end_window(const Sweep& sweep, const Epoch& epoch) {
    const bool is_last = epoch.total && *epoch.total == epoch.required_end;
    if (is_last || !lives_vary(sweep) || table_.open() + 1 != window_end_) return;
    left_ = table_.share() - table_.open_bytes();
    table_.end_segment();
  }

  const RowsTable& rows_;
  RowsCounts& counts_;
  const std::uint64_t most_bytes_;
  SegmentTable table_;
  std::uint64_t window_end_ = 0;       // the segment that begins where the window of a
                                       // loaded state ends
  bool window_known_ = true;           // where that is, or there is none
  bool strange_ = false;               // see are_strange()
  std::optional<std::uint64_t> left_;  // of the share of the window's last segment
};

}  // namespace echobuf
