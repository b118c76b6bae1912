// Packing the records of passes into rows of one length: which record goes where, and
// when a batch of rows is full. One caller at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/draw/rows_segments.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/row_packer.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"

namespace echobuf {

/// Each record is copied to its place as it is drawn, so no draw waits in the ring for
/// the rest of a batch; rows are handed out in the order in which they were begun. All
/// leaves have the same number of values.
///
/// `Memory`: where batches of rows are that were begun, in host memory or on a device.
template <class Ring, class Memory>
class Packing : public PassCursor<Ring> {
  using Cursor = PassCursor<Ring>;

 public:
  using Outcome = DrawOutcome;

  static constexpr std::uint64_t kChunk = 64;  // records that are drawn together

  /// The most batches that are being filled: with a row that closes the first come as
  /// many as may be open, and one for each record that is drawn with it.
  static constexpr std::uint64_t most_begun(std::uint64_t batch_size) {
    return 1 + (RowPacker::kOpen + kChunk - 2) / batch_size + 1;
  }

  /// `of_memory`: the arguments of Memory.
  template <class... OfMemory>
  Packing(const BufferOptions& options, Ring& ring, const WindowRows& rows,
          OfMemory&&... of_memory)
      : Cursor(options, ring, nullptr, rows),
        memory_(std::forward<OfMemory>(of_memory)...),
        table_(*rows.table),
        packer_(options.lengths.row_length()),
        handed_(sweep_) {}

  /// The schedule after the rows that were handed out: from there on, with the rows
  /// that had room then, all that follow come again.
  const Sweep& sweep() const override { return handed_; }

  bool ready() override { return look_ahead() != Outcome::kWait; }
  bool finished() override { return look_ahead() == Outcome::kFinished; }

  void restore(const Epoch& epoch, const Sweep& sweep) override {
    Cursor::move_to(epoch, sweep);
    begun_.clear();
    first_row_ = 0;
    const OpenRows rows = open_rows(sweep);
    packer_.begin(rows ? *rows : std::vector<RowPacker::Row>());
    served_ = served(sweep);
    handed_ = sweep_;
  }

 protected:
  using Cursor::epoch_;
  using Cursor::options_;
  using Cursor::ring_;
  using Cursor::sweep_;

  /// A batch that is being filled, and the schedule before its first example.
  struct Begun {
    typename Memory::Rows block;
    Sweep before;
    std::vector<RowPacker::Row> rows;
  };

  /// Draws until the first batch is full, or has all that there is: kBatch.
  Outcome fill(Poll* poll) {
    for (;;) {
      if (packer_.closed() >= first_row_ + options_.batch_size) return Outcome::kBatch;
      const Outcome outcome =
          std::visit([&](auto& sweep) { return draw_some(sweep, poll); }, sweep_);
      if (outcome == Outcome::kBatch) continue;  // some were drawn
      if (outcome != Outcome::kFinished) return outcome;
      const std::uint64_t left = packer_.rows() - first_row_;
      if (left == 0 || (left < options_.batch_size && options_.drop_last))
        return outcome;
      return Outcome::kBatch;
    }
  }

  Begun& first() { return begun_.front(); }

  /// Rows of the first batch that was begun: all, or those that there are.
  std::uint64_t rows_of_first() const {
    return std::min(options_.batch_size, packer_.rows() - first_row_);
  }

  /// The first batch that was begun was handed out, with so many rows.
  void go_past_first(std::uint64_t rows) {
    Sweep after = sweep_;
    if (begun_.size() > 1)
      after = begun_[1].before;
    else
      note_rows(after);
    for (std::uint64_t row = 0; row < rows; ++row) {
      const RowPacker::Row& packed = begun_.front().rows[row];
      served_ += packed.segments;
      this->segments_->counts().add_drawn(options_.lengths.row_length(), packed.used);
    }
    begun_.pop_front();
    first_row_ += rows;
    handed_ = std::move(after);
    std::visit(
        [&](auto& s) {
          s.served_ahead = served_ - std::min(served_, s.position().draws);
          s.last =
              options_.drop_last && has_ended() && look_ahead() == Outcome::kFinished;
        },
        handed_);
  }

  Memory memory_;

 private:
  // ---- drawing

  /// Draws a few records, to wherever they go. kBatch: it has. With "auto" a pass may
  /// be another one after a restore, and what had room then may have been handed out
  /// with other records: they join new rows, so that none is lost.
  template <class S>
  Outcome draw_some(S& sweep, Poll* poll) {
    UpstreamProgress progress;
    if (const auto end = this->look(sweep, progress)) return *end;
    const bool crosses = this->crosses(sweep);
    S walk = sweep;
    Part part;
    const Step step = walk.step(progress, kChunk, part);
    if (step == Step::kFinished) return Outcome::kFinished;
    if (step == Step::kPart) {
      if (crosses) packer_.close_before();
      const std::uint64_t taken = place_all(sweep, walk, progress, part);
      memory_.flush(epoch_.position(part.window.first) + part.window.count);
      if (taken < part.count) {  // no memory for more; what is placed is drawn
        if (taken > 0) {
          walk = sweep;
          walk.step(progress, taken, part);
          go_on(walk);
        }
        throw std::bad_alloc();
      }
    }
    if (crosses) ring_.clear_held_back();
    if (step == Step::kWait) this->note_need(walk);
    go_on(walk);
    if (step == Step::kWait) return Outcome::kWait;
    return meter_.go_on(poll) ? Outcome::kBatch : Outcome::kInterrupted;
  }

  /// Copies the records of a part, which `walk` has stepped over from `sweep` on, to
  /// their places; returns how many, fewer only where there was no memory for a row.
  template <class S>
  std::uint64_t place_all(const S& sweep, const S& walk,
                          const UpstreamProgress& progress, const Part& part) {
    const std::shared_ptr<const Echoes> echoes = this->echoes_of(walk, part);
    std::uint32_t records[kChunk];
    list_places(part, records);
    const std::uint64_t window = epoch_.position(part.window.first);
    std::uint64_t taken = 0;
    for (; taken < part.count; ++taken) {
      const std::uint64_t slot = ring_.slot(window + records[taken]);
      const std::uint64_t length = table_.rows(slot, 0).count;
      const std::int64_t row = packer_.next_row(length);
      if (row >= 0 && static_cast<std::uint64_t>(row) >=
                          first_row_ + begun_.size() * options_.batch_size) {
        S before = sweep;
        Part same;
        if (taken > 0) before.step(progress, taken, same);
        if (!begin_batch(before)) break;
      }
      Drawn drawn{options_.seed, epoch_.number, part.draw + taken, 0, nullptr, nullptr};
      if (echoes)
        drawn.use({part.window.first + records[taken], echoes->of(records[taken])});
      copy(slot, packer_.place(row, length), row, drawn);
    }
    return taken;
  }

  /// Writes the places in the window of the records of a part, in the draws' order.
  void list_places(const Part& part, std::uint32_t* places) {
    permute_range(this->order_of(part), static_cast<std::uint32_t>(part.offset),
                  static_cast<std::uint32_t>(part.count), places);
    part.sparse.place_all(places, part.count);
  }

  /// False where there is no memory.
  template <class S>
  bool begin_batch(S& before) try {
    before.open_rows =
        std::make_shared<const std::vector<RowPacker::Row>>(packer_.last());
    begun_.push_back(
        {memory_.take(), before, std::vector<RowPacker::Row>(options_.batch_size)});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  /// Copies a record to its place; rows before begin() were handed out already.
  void copy(std::uint64_t slot, const RowPacker::Place& place, std::int64_t row,
            const Drawn& drawn) {
    if (row < 0) return;
    const std::uint64_t number = place.row - first_row_;
    Begun& batch = begun_[number / options_.batch_size];
    const std::uint64_t of_batch = number % options_.batch_size;
    batch.rows[of_batch] = packer_.at(place.row);
    const std::size_t first = of_batch * options_.lengths.row_length() + place.at;
    meter_.wrote(memory_.copy(batch.block, slot, first, place.segment, drawn));
  }

  /// What was placed is drawn.
  void go_on(const Sweep& after) {
    this->go_ahead(after);
    this->give_back();
  }

  /// Returns what a draw would, without a copy.
  Outcome look_ahead() {
    RowPacker packer = packer_;
    const Outcome outcome =
        std::visit([&](auto walk) { return look_ahead(walk, packer); }, sweep_);
    const std::uint64_t left = packer.rows() - first_row_;
    if (outcome != Outcome::kFinished || left == 0) return outcome;
    const bool whole = left >= options_.batch_size || !options_.drop_last;
    return whole ? Outcome::kBatch : Outcome::kFinished;
  }

  /// Walks on and packs until the first batch is full.
  template <class S>
  Outcome look_ahead(S& walk, RowPacker& packer) {
    while (packer.closed() < first_row_ + options_.batch_size) {
      UpstreamProgress progress;
      if (const auto end = this->look(walk, progress)) return *end;
      const bool crosses = this->crosses(walk);
      Part part;
      const Step step = walk.step(progress, kChunk, part);
      if (step == Step::kWait) return Outcome::kWait;
      if (step == Step::kFinished) return Outcome::kFinished;
      if (crosses) packer.close_before();
      std::uint32_t records[kChunk];
      list_places(part, records);
      const std::uint64_t window = epoch_.position(part.window.first);
      for (std::uint64_t i = 0; i < part.count; ++i) {
        const std::uint64_t length =
            table_.rows(ring_.slot(window + records[i]), 0).count;
        packer.place(packer.next_row(length), length);
      }
    }
    return Outcome::kBatch;
  }

  /// Notes with a place which rows have room there.
  void note_rows(Sweep& place) const {
    auto rows = std::make_shared<const std::vector<RowPacker::Row>>(packer_.last());
    std::visit([&](auto& s) { s.open_rows = std::move(rows); }, place);
  }

  bool has_ended() {
    return std::visit([&](auto& walk) { return this->look(walk).ended; }, sweep_);
  }

  const RowsTable& table_;
  RowPacker packer_;
  std::deque<Begun> begun_;
  std::uint64_t first_row_ = 0;  // of the packer's, that was not handed out
  std::uint64_t served_ = 0;     // draws that were handed out
  Sweep handed_;
  PollMeter meter_;
};

}  // namespace echobuf
