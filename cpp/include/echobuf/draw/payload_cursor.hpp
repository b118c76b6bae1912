// A cursor over the passes of an epoch whose records differ in length: their lengths
// shape its segments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/segment_table.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// `Ring`: of the window, in host memory or on a device.
template <class Ring>
class PayloadCursor : public PassCursor<Ring> {
  using Cursor = PassCursor<Ring>;

 public:
  using Outcome = DrawOutcome;

  /// `share`: the most bytes of a segment; `most_bytes`: of a record.
  PayloadCursor(const BufferOptions& options, Ring& ring, const RowsTable& rows,
                std::uint64_t share, std::uint64_t most_bytes, RowsCounts& counts,
                const Versions* versions)
      : Cursor(options, ring, versions),
        rows_table_(rows),
        counts_(counts),
        most_bytes_(most_bytes),
        table_(share) {
    follow();
  }

  /// See PassCursor; what is on its way comes first. Where it is not known which record
  /// fills a segment, the first that may.
  std::uint64_t wanted() {
    if (catching_up_) return ring_.extent().committed;
    const typename Ring::Extent extent = ring_.extent();
    const std::uint64_t need = need_ == SegmentTable::kUnknown ? soonest_end() : need_;
    const std::uint64_t last = epoch_.position(std::max(need, epoch_.required_end)) - 1;
    const bool first_hole = extent.closed || ring_.is_committed(last);
    return first_hole ? extent.committed : last;
  }

 protected:
  /// From `sweep` on, in `epoch`: segments are those of its records.
  void move_to(const Epoch& epoch, const Sweep& sweep) {
    Cursor::move_to(epoch, sweep);
    catching_up_.reset();
    counts_.clear();
    follow();
  }

  /// Returns whether it waits for what is on its way alone.
  bool catching_up() const { return catching_up_.has_value(); }

  /// On a device, all records that were put by now decide what "auto" sweeps next,
  /// however far the uploader is: a draw waits for these, and not for later ones.
  bool is_catching_up() {
    if (ring_.behind()) {
      if (!catching_up_) catching_up_ = ring_.tail();
      if (ring_.extent().committed < *catching_up_) return true;
    }
    catching_up_.reset();
    return false;
  }

  /// Records up to where they are committed are known.
  template <class S>
  UpstreamProgress look_on(const S& walk) {
    const UpstreamProgress progress = Cursor::look(walk);
    const auto size_of = [&](std::uint64_t i) {
      return walk.schedule().segment_size(i);
    };
    while (table_.end() < progress.committed) {
      const std::uint64_t slot = ring_.slot(epoch_.position(table_.end()));
      const std::uint64_t bytes = rows_table_.bytes_of(slot);
      if (left_ && table_.end() == epoch_.required_end && bytes <= *left_)
        strange_ = true;  // it would have been in the window, too
      table_.add(bytes, size_of);
      counts_.add_fresh(rows_table_.examples_of(slot), rows_table_.rows_of(slot));
      if (!window_known_) look_at_window();
    }
    return progress;
  }

  /// A loaded state demands records that are not there, or others.
  bool lacking(const UpstreamProgress& progress) const {
    return strange_ || Cursor::lacking(progress);
  }
  Outcome why_lacking(const UpstreamProgress& progress) const {
    return strange_ ? Outcome::kShort : Cursor::why_lacking(progress);
  }

  /// The walk waits.
  template <class S>
  void note_need(const S& walk) {
    need_ = walk.need();
  }

  /// What was drawn is drawn.
  void go_on(const Sweep& after) {
    go_ahead(after);
    give_back();
  }
  /// The same, where its places are still read: give_back() follows.
  void go_ahead(const Sweep& after) {
    sweep_ = after;
    table_.forget(oldest_segment(sweep_));
  }
  void give_back() { this->release(oldest_record(sweep_)); }

  using Cursor::epoch_;
  using Cursor::options_;
  using Cursor::ring_;
  using Cursor::sweep_;

  const RowsTable& rows_table_;
  RowsCounts& counts_;

 private:
  void follow() {
    table_.begin(oldest_segment(sweep_), oldest_record(sweep_), whole_before(sweep_));
    std::visit([&](auto& sweep) { sweep.follow(&table_); }, sweep_);
    window_end_ = end_segment(sweep_);
    window_known_ = epoch_.required_end == 0;
    strange_ = false;
    left_.reset();
    need_ = SegmentTable::kUnknown;
  }

  /// The window of a loaded state ends where as many segments do as it had. Where the
  /// records make more of them, that is known before the ring is full.
  void look_at_window() {
    const std::uint64_t end = table_.start(window_end_);
    if (table_.end() == epoch_.required_end) {
      end_window();
      if (!is_in_pass(sweep_)) strange_ = true;
    }
    if (end == SegmentTable::kUnknown && table_.end() <= epoch_.required_end) return;
    window_known_ = true;
    strange_ = strange_ || end != epoch_.required_end;
  }

  /// All of the window of a loaded state is there. Its last segment was full then, if
  /// more came: the draws that follow must know that before more come again.
  void end_window() {
    const bool is_last = epoch_.total && *epoch_.total == epoch_.required_end;
    if (is_last || !lives_vary(sweep_) || table_.open() + 1 != window_end_) return;
    left_ = table_.share() - table_.open_bytes();
    table_.end_segment();
  }

  /// The number of records that there are when the open segment is full at the soonest.
  std::uint64_t soonest_end() const {
    const std::uint64_t left =
        segment_size(sweep_, table_.open()) - table_.open_records();
    if (table_.share() == LengthOptions::kNoLimit || most_bytes_ == 0)
      return table_.end() + left;
    const std::uint64_t fitting =
        (table_.share() - table_.open_bytes()) / most_bytes_ + 1;
    return table_.end() + std::min(left, fitting);
  }

  const std::uint64_t most_bytes_;
  SegmentTable table_;
  std::uint64_t window_end_ = 0;       // the segment that begins where the window of a
                                       // loaded state ends
  bool window_known_ = true;           // where that is, or there is none
  bool strange_ = false;               // the records are not those of the loaded state
  std::optional<std::uint64_t> left_;  // of the share of the window's last segment
  std::uint64_t need_ = SegmentTable::kUnknown;
  std::optional<std::uint64_t> catching_up_;  // with what is below this position
};

}  // namespace echobuf
