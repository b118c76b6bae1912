// Drawing batches of records that differ in length: from the schedule, which their
// lengths shape, to a block of memory. One caller at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/payload_cursor.hpp"
#include "echobuf/draw/payload_draw.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf {

class PayloadDrawer : public PayloadCursor {
 public:
  using Outcome = DrawOutcome;
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  PayloadDrawer(const BufferOptions& options, PayloadRing& ring,
                const PayloadStore& store, const BatchLayout& batch,
                std::shared_ptr<BatchPool> pool, std::uint64_t share,
                std::uint64_t most_bytes)
      : PayloadCursor(options, ring, store, share, most_bytes),
        draw_(store, batch, options, std::move(pool)),
        rows_(store.fields().size()),
        after_(sweep_),
        partial_rows_(store.fields().size()) {}

  /// Draws into a block from the pool: all of a batch, or what cannot wait in the ring
  /// for the rest.
  Outcome draw(Batch& batch, Poll* poll) {
    const Outcome outcome = plan(sweep_);
    if (outcome == Outcome::kWait) return set_apart(poll);
    if (outcome != Outcome::kBatch) return outcome;
    if (!draw_.draw(plan_, partial_, options_.lengths.form, batch, poll))
      return Outcome::kInterrupted;
    drop_partial();
    go_on();
    return outcome;
  }

  /// True if a draw would not wait. Changes nothing that is drawn.
  bool ready() { return plan(sweep_) != Outcome::kWait; }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    move_to(epoch, sweep);
    drop_partial();
    after_ = sweep_;
  }

  /// Nothing reads slots after the draw.
  void settle() {}

 private:
  static constexpr std::uint64_t kChunk = 256;  // records that are looked at together

  // ---- a plan

  /// Walks a copy of the schedule until a whole batch is sure.
  Outcome plan(const Sweep& from) {
    begin_plan();
    after_ = from;
    return std::visit([this](auto& walk) { return walk_on(walk); }, after_);
  }

  void begin_plan() {
    plan_.clear();
    longest_ = partial_longest_;
    rows_ = partial_rows_;
    crossed_ = full_ = false;
  }

  template <class S>
  Outcome walk_on(S& walk) {
    while (!full_ && count() < most_records()) {
      const UpstreamProgress progress = look_on(walk);
      if (lacking(progress)) {
        note_need(walk);
        return why_lacking(progress);
      }
      if constexpr (S::kDrawsPartly) crossed_ = crossed_ || walk.between_passes();
      const S before = walk;
      Part part;
      const Step step =
          walk.step(progress, std::min(kChunk, most_records() - count()), part);
      if (step == Step::kWait) {
        note_need(walk);
        return Outcome::kWait;
      }
      if (step == Step::kFinished) {
        walk = before;  // what ends a pass is not done twice
        break;
      }
      const std::uint64_t taken = add(part);
      if (taken == part.count) continue;
      // The next one does not fit: the walk has gone too far.
      walk = before;
      if (taken > 0) walk.step(progress, taken, part);
    }
    const bool whole = full_ || count() == most_records();
    if (whole || (count() > 0 && !options_.drop_last)) return Outcome::kBatch;
    return Outcome::kFinished;
  }

  std::uint64_t count() const { return partial_.count + plan_.slots.size(); }

  /// Of a batch. A row less for each would be none: empty records are counted, too.
  std::uint64_t most_records() const {
    return options_.lengths.max_rows > 0 ? options_.window : options_.batch_size;
  }

  /// Adds the records of a part, up to the first that does not fit; their number.
  std::uint64_t add(const Part& part) {
    const Permutation& order = order_of(part);
    std::uint32_t records[kChunk];
    permute_range(order, static_cast<std::uint32_t>(part.offset),
                  static_cast<std::uint32_t>(part.count), records);
    const std::uint64_t window = epoch_.position(part.window.first);
    std::uint64_t taken = 0;
    for (; taken < part.count; ++taken) {
      const std::uint64_t slot = ring_.slot(window + records[taken]);
      if (options_.lengths.max_rows > 0 && !fits(slot)) break;
      plan_.slots.push_back(slot);
    }
    if (taken > 0) {
      plan_.orders.push_back(order);
      plan_.parts.push_back(
          {plan_.orders.back(), window, part.offset, taken, part.draw, epoch_.number});
    }
    return taken;
  }

  /// Counts the rows of a record, or says that they are too many for this batch.
  bool fits(std::uint64_t slot) {
    const bool padded = options_.lengths.form == LengthOptions::Form::kPadded;
    std::uint64_t longest = longest_;
    bool fit = true;
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      const std::uint64_t rows = store_.rows(slot, f).count;
      longest = std::max(longest, rows);
      const std::uint64_t all = padded ? longest * (count() + 1) : rows_[f] + rows;
      fit = fit && all <= options_.lengths.max_rows;
    }
    if (!fit && count() > 0) {
      full_ = true;
      return false;
    }
    longest_ = longest;
    for (std::size_t f = 0; f < rows_.size(); ++f)
      rows_[f] += store_.rows(slot, f).count;
    return true;
  }

  // ---- after it

  void go_on() {
    if (crossed_) ring_.clear_held_back();
    PayloadCursor::go_on(after_);
    if (partial_.count == 0) return;
    partial_longest_ = longest_;
    partial_rows_ = rows_;
  }

  void drop_partial() {
    partial_ = {};
    partial_longest_ = 0;
    std::fill(partial_rows_.begin(), partial_rows_.end(), 0);
  }

  /// What is planned is drawn into memory of our own, where its place in the ring is
  /// needed for what it waits for: always with "auto", which may spend everything in
  /// the middle of a batch; else where the batch spans more segments than there is room
  /// for.
  Outcome set_apart(Poll* poll) {
    if (const auto* walk = std::get_if<FixedSweep>(&after_)) {
      const std::uint64_t next = walk->passes_begun() == 0 ? 0
                                 : walk->pass_done()       ? walk->position().pass + 1
                                                           : walk->position().pass;
      if (next <= oldest_segment(sweep_) + walk->schedule().segments())
        return Outcome::kWait;
    }
    if (!plan_.slots.empty() &&
        !draw_.draw(plan_, partial_, LengthOptions::Form::kPacked, partial_, poll))
      return Outcome::kInterrupted;
    go_on();
    return Outcome::kWait;
  }

  PayloadDraw draw_;

  PayloadPlan plan_;                 // of the batch that is next
  std::vector<std::uint64_t> rows_;  // of all records of the batch, by field
  std::uint64_t longest_ = 0;
  bool crossed_ = false;  // a pass has ended in it
  bool full_ = false;     // the next record does not fit
  Sweep after_;

  Batch partial_;  // the first records of the next batch, packed, where they were set
                   // apart
  std::uint64_t partial_longest_ = 0;
  std::vector<std::uint64_t> partial_rows_;
};

}  // namespace echobuf
