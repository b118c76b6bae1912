// Drawing batches of rows of one length, each packed with whole examples. One caller at
// a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/payload_cursor.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/rows_layout.hpp"
#include "echobuf/draw/rows_maker.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/row_packer.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf {

/// Each record is copied to its place as it is drawn, so no draw waits in the ring for
/// the rest of a batch; rows are handed out in the order in which they were begun. All
/// leaves have the same number of values.
class RowsDrawer : public PayloadCursor<PayloadRing, PayloadStore> {
 public:
  using Outcome = DrawOutcome;
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  static constexpr std::uint64_t kChunk = 64;  // records that are drawn together

  /// The most batches that are being filled: with a row that closes the first come as
  /// many as may be open, and one for each record that is drawn with it.
  static constexpr std::uint64_t most_begun(std::uint64_t batch_size) {
    return 1 + (RowPacker::kOpen + kChunk - 2) / batch_size + 1;
  }

  RowsDrawer(const BufferOptions& options, PayloadRing& ring, const PayloadStore& store,
             const BatchLayout& batch, std::shared_ptr<BatchPool> pool,
             std::uint64_t share, std::uint64_t most_bytes, RowsCounts& counts)
      : PayloadCursor(options, ring, store, share, most_bytes, counts),
        pool_(std::move(pool)),
        layout_(batch, options.lengths, options.batch_size),
        packer_(options.lengths.pack_to),
        handed_(sweep_) {
    for (const RowsLayout::Leaf& leaf : layout_.leaves()) {
      const RowsPlan* const plan = batch.all()[leaf.number].rows;
      makers_.emplace_back();
      if (plan) makers_.back().emplace(*plan, store.fields()[leaf.field].pad, false);
    }
  }

  Outcome draw(Batch& batch, Poll* poll) {
    for (;;) {
      if (packer_.closed() >= first_row_ + options_.batch_size) break;
      const Outcome outcome =
          std::visit([&](auto& sweep) { return draw_some(sweep, poll); }, sweep_);
      if (outcome == Outcome::kBatch) continue;  // some were drawn
      if (outcome != Outcome::kFinished) return outcome;
      const std::uint64_t left = packer_.rows() - first_row_;
      if (left == 0 || (left < options_.batch_size && options_.drop_last))
        return outcome;
      break;
    }
    hand_out(batch);
    return Outcome::kBatch;
  }

  /// The schedule after the rows that were handed out: from there on, with the rows
  /// that had room then, all that follow come again.
  const Sweep& sweep() const { return handed_; }

  /// True if a draw would not wait.
  bool ready() { return look_ahead() != Outcome::kWait; }

  /// True if there is no further batch.
  bool finished() { return look_ahead() == Outcome::kFinished; }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    move_to(epoch, sweep);
    begun_.clear();
    first_row_ = 0;
    const OpenRows rows = open_rows(sweep);
    packer_.begin(rows ? *rows : std::vector<RowPacker::Row>());
    served_ = served(sweep);
    handed_ = sweep_;
  }

  void settle() {}

 private:
  static constexpr std::size_t kPollBytes = std::size_t{16} << 20;

  /// A batch that is being filled, and the schedule before its first example.
  struct Begun {
    Block block;
    Sweep before;
    std::vector<RowPacker::Row> rows;
  };

  // ---- drawing

  /// Draws a few records, to wherever they go. kBatch: it has. With "auto" a pass may
  /// be another one after a restore, and what had room then may have been handed out
  /// with other records: they join new rows, so that none is lost.
  template <class S>
  Outcome draw_some(S& sweep, Poll* poll) {
    const UpstreamProgress progress = look_on(sweep);
    if (lacking(progress)) {
      note_need(sweep);
      return why_lacking(progress);
    }
    bool crosses = false;
    if constexpr (S::kDrawsPartly) crosses = sweep.between_passes();
    S walk = sweep;
    Part part;
    const Step step = walk.step(progress, kChunk, part);
    if (step == Step::kFinished) return Outcome::kFinished;
    if (step == Step::kPart) {
      if (crosses) packer_.close_before();
      const std::uint64_t taken = place_all(sweep, progress, part);
      if (taken < part.count) {  // no memory for more; what is placed is drawn
        if (taken > 0) {
          walk = sweep;
          walk.step(progress, taken, part);
          PayloadCursor::go_on(walk);
        }
        throw std::bad_alloc();
      }
    }
    if (crosses) ring_.clear_held_back();
    if (step == Step::kWait) note_need(walk);
    const Sweep after = walk;
    PayloadCursor::go_on(after);
    if (step == Step::kWait) return Outcome::kWait;
    return poll_now(poll) ? Outcome::kBatch : Outcome::kInterrupted;
  }

  /// Copies the records of a part to their places; returns how many, fewer only where
  /// there was no memory for a row.
  template <class S>
  std::uint64_t place_all(const S& sweep, const UpstreamProgress& progress,
                          const Part& part) {
    std::uint32_t records[kChunk];
    permute_range(order_of(part), static_cast<std::uint32_t>(part.offset),
                  static_cast<std::uint32_t>(part.count), records);
    const std::uint64_t window = epoch_.position(part.window.first);
    std::uint64_t taken = 0;
    for (; taken < part.count; ++taken) {
      const std::uint64_t slot = ring_.slot(window + records[taken]);
      const std::uint64_t length = store_.rows(slot, 0).count;
      const std::int64_t row = packer_.next_row(length);
      if (row >= 0 && static_cast<std::uint64_t>(row) >=
                          first_row_ + begun_.size() * options_.batch_size) {
        S before = sweep;
        Part same;
        if (taken > 0) before.step(progress, taken, same);
        if (!begin_batch(before)) break;
      }
      const Drawn drawn{options_.seed, epoch_.number, part.draw + taken, 0,
                        nullptr,       nullptr};
      copy(slot, packer_.place(row, length), row, drawn);
    }
    return taken;
  }

  /// False where there is no memory.
  template <class S>
  bool begin_batch(S& before) try {
    before.open_rows =
        std::make_shared<const std::vector<RowPacker::Row>>(packer_.last());
    begun_.push_back(
        {pool_->take(), before, std::vector<RowPacker::Row>(options_.batch_size)});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  /// Copies a record to its place; rows before begin() were handed out already.
  void copy(std::uint64_t slot, const RowPacker::Place& place, std::int64_t row,
            const Drawn& drawn) {
    if (row < 0) return;
    const std::uint64_t length = store_.rows(slot, 0).count;
    const std::uint64_t number = place.row - first_row_;
    Begun& batch = begun_[number / options_.batch_size];
    const std::uint64_t of_batch = number % options_.batch_size;
    batch.rows[of_batch] = packer_.at(place.row);
    std::byte* const block = batch.block.data();
    const std::size_t first = of_batch * options_.lengths.pack_to + place.at;
    for (std::size_t i = 0; i < makers_.size(); ++i) {
      const RowsLayout::Leaf& leaf = layout_.leaves()[i];
      const PayloadStore::Rows& rows = store_.rows(slot, leaf.field);
      const std::size_t bytes = leaf.row_bytes;
      const std::byte* const from = store_.payload() + rows.offset;
      std::byte* const to = block + leaf.offset + first * bytes;
      if (makers_[i])
        makers_[i]->make(drawn, {from, length * makers_[i]->plan().row_bytes}, to);
      else if (length > 0)
        std::memcpy(to, from, length * bytes);
      since_poll_ += length * bytes;
    }
    auto* const segments =
        reinterpret_cast<std::int32_t*>(block + layout_.ids().segments);
    auto* const positions =
        reinterpret_cast<std::int32_t*>(block + layout_.ids().positions);
    for (std::uint64_t i = 0; i < length; ++i) {
      segments[first + i] = static_cast<std::int32_t>(place.segment);
      positions[first + i] = static_cast<std::int32_t>(i);
    }
  }

  bool poll_now(Poll* poll) {
    if (!poll || since_poll_ < kPollBytes) return true;
    since_poll_ = 0;
    return poll->go_on();
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
      const UpstreamProgress progress = look_on(walk);
      if (lacking(progress)) return why_lacking(progress);
      bool crosses = false;
      if constexpr (S::kDrawsPartly) crosses = walk.between_passes();
      Part part;
      const Step step = walk.step(progress, kChunk, part);
      if (step == Step::kWait) return Outcome::kWait;
      if (step == Step::kFinished) return Outcome::kFinished;
      if (crosses) packer.close_before();
      std::uint32_t records[kChunk];
      permute_range(order_of(part), static_cast<std::uint32_t>(part.offset),
                    static_cast<std::uint32_t>(part.count), records);
      const std::uint64_t window = epoch_.position(part.window.first);
      for (std::uint64_t i = 0; i < part.count; ++i) {
        const std::uint64_t length =
            store_.rows(ring_.slot(window + records[i]), 0).count;
        packer.place(packer.next_row(length), length);
      }
    }
    return Outcome::kBatch;
  }

  // ---- handing out

  /// The first batch that was begun: of all of its rows, or of those that there are.
  void hand_out(Batch& batch) {
    const std::uint64_t rows =
        std::min(options_.batch_size, packer_.rows() - first_row_);
    Sweep after = sweep_;
    if (begun_.size() > 1)
      after = begun_[1].before;
    else
      note_rows(after);
    const std::uint64_t length = options_.lengths.pack_to;
    std::vector<LeafPlace> places;
    for (const RowsLayout::Leaf& leaf : layout_.leaves())
      places.push_back({leaf.offset, length, 0});
    std::byte* const block = begun_.front().block.data();
    auto* const lengths =
        reinterpret_cast<std::int64_t*>(block + layout_.ids().lengths);
    for (std::uint64_t row = 0; row < rows; ++row) {
      const std::uint64_t used = begun_.front().rows[row].used;
      served_ += begun_.front().rows[row].segments;
      lengths[row] = static_cast<std::int64_t>(used);
      counts_.add_drawn(length, used);
      const std::size_t first = row * length + used;
      const std::size_t left = length - used;
      for (const RowsLayout::Leaf& leaf : layout_.leaves()) {
        fill_rows(block + leaf.offset + first * leaf.row_bytes, left * leaf.row_bytes,
                  makers_[&leaf - layout_.leaves().data()]
                      ? options_.leaves[leaf.number].pad
                      : store_.fields()[leaf.field].pad);
      }
      std::memset(block + layout_.ids().segments + first * sizeof(std::int32_t), 0,
                  left * sizeof(std::int32_t));
      std::memset(block + layout_.ids().positions + first * sizeof(std::int32_t), 0,
                  left * sizeof(std::int32_t));
    }
    batch = {std::move(begun_.front().block), rows, std::move(places), layout_.ids()};
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

  /// Notes with a place which rows have room there.
  void note_rows(Sweep& place) const {
    auto rows = std::make_shared<const std::vector<RowPacker::Row>>(packer_.last());
    std::visit([&](auto& s) { s.open_rows = std::move(rows); }, place);
  }

  bool has_ended() {
    return std::visit([&](auto& walk) { return look_on(walk).ended; }, sweep_);
  }

  const std::shared_ptr<BatchPool> pool_;
  const RowsLayout layout_;
  std::vector<std::optional<RowsMaker>> makers_;  // of its leaves that are no copies

  RowPacker packer_;
  std::uint64_t first_row_ = 0;  // of the packer's, that was not handed out
  std::uint64_t served_ = 0;     // draws that were handed out
  std::deque<Begun> begun_;
  Sweep handed_;
  std::size_t since_poll_ = 0;
};

}  // namespace echobuf
