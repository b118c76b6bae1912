// The plan of the next batch of records that differ in length: which they are, from the
// schedule that their lengths shape.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "echobuf/draw/part.hpp"
#include "echobuf/draw/payload_cursor.hpp"
#include "echobuf/draw/transformed_rows.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// The records of a batch in the order of their draws.
struct PayloadPlan {
  std::deque<Permutation> orders;  // of the parts
  std::deque<Echoes> echoes;       // the same, where draws know them
  std::vector<PassPart> parts;
  std::vector<std::uint64_t> slots;
  std::vector<DrawnUse> uses;  // of all records, where draws know them
  std::uint64_t end = 0;       // ring position up to which records are read

  void clear() {
    parts.clear();
    orders.clear();
    echoes.clear();
    slots.clear();
    uses.clear();
    end = 0;
  }

  DrawnRecords records() const { return {parts, slots, uses}; }
};

/// See PayloadCursor.
template <class Ring>
class PayloadPlanner : public PayloadCursor<Ring> {
  using Cursor = PayloadCursor<Ring>;

 public:
  using Outcome = DrawOutcome;

  /// `versions`: of the records, for the uses of a plan; null: 0.
  PayloadPlanner(const BufferOptions& options, Ring& ring, const RowsTable& rows,
                 std::uint64_t share, std::uint64_t most_bytes, RowsCounts& counts,
                 const Versions* versions = nullptr)
      : Cursor(options, ring, rows, share, most_bytes, counts, versions),
        versions_(versions && versions->bytes() > 0 ? versions : nullptr),
        rows_(rows.fields().size()),
        after_(sweep_),
        partial_rows_(rows.fields().size()),
        counted_(rows.fields().size()) {
    for (std::size_t f = 0; f < counted_.size(); ++f)
      in_batches_.push_back(options.leaves.empty() ||
                            is_in_batches(rows.fields()[f].field));
  }

  /// True if a draw would not wait. Changes nothing that is drawn.
  bool ready() { return plan() != Outcome::kWait; }

  /// True if there is no further batch. Changes nothing that is drawn.
  bool finished() { return plan() == Outcome::kFinished; }

 protected:
  using Cursor::epoch_;
  using Cursor::options_;
  using Cursor::ring_;
  using Cursor::rows_table_;
  using Cursor::sweep_;

  /// Walks a copy of the schedule until a whole batch is sure.
  Outcome plan() {
    begin_plan();
    after_ = sweep_;
    return std::visit([this](auto& walk) { return this->walk_on(walk); }, after_);
  }

  const PayloadPlan& planned() const { return plan_; }
  /// Records of the batch, with those that were set apart.
  std::uint64_t count() const { return partial_count_ + plan_.slots.size(); }
  /// Its rows, by field, and the most of a record.
  const std::vector<std::uint64_t>& rows() const { return rows_; }
  std::uint64_t longest() const { return longest_; }

  /// The plan was carried out; `apart`: its records are the first of the next one.
  void go_on(bool apart) {
    go_ahead(apart);
    this->give_back();
  }
  /// The same, where the places of its records are still read: give_back() follows.
  void go_ahead(bool apart) {
    if (crossed_) ring_.clear_held_back();
    count_rows(apart);  // before their places are free again
    Cursor::go_ahead(after_);
    if (!apart) return forget_apart();
    partial_count_ = count();
    plan_.clear();
    partial_longest_ = longest_;
    partial_rows_ = rows_;
  }

  /// Whether what is planned must be drawn into memory of our own, since its place in
  /// the ring is needed for what it waits for: always with "auto", which may spend
  /// everything in the middle of a batch; else where the batch spans more segments than
  /// there is room for.
  bool must_set_apart() const {
    const auto* walk = std::get_if<FixedSweep>(&after_);
    if (!walk || this->expires()) return true;
    const std::uint64_t next = walk->passes_begun() == 0 ? 0
                               : walk->pass_done()       ? walk->position().pass + 1
                                                         : walk->position().pass;
    return next > oldest_segment(sweep_) + walk->schedule().segments();
  }

  void move_to(const Epoch& epoch, const Sweep& sweep) {
    Cursor::move_to(epoch, sweep);
    plan_.clear();
    forget_apart();
    std::fill(counted_.begin(), counted_.end(), Counted{});
    after_ = sweep_;
  }

 private:
  static constexpr std::uint64_t kChunk = 256;  // records that are looked at together

  void begin_plan() {
    plan_.clear();
    longest_ = partial_longest_;
    rows_ = partial_rows_;
    crossed_ = full_ = false;
  }

  template <class S>
  Outcome walk_on(S& walk) {
    while (!full_ && count() < most_records()) {
      if constexpr (S::kDrawsPartly)
        if (walk.between_passes() && this->is_catching_up()) return Outcome::kWait;
      const UpstreamProgress progress = this->look_on(walk);
      if (this->lacking(progress)) {
        this->note_need(walk);
        return this->why_lacking(progress);
      }
      if constexpr (S::kDrawsPartly) crossed_ = crossed_ || walk.between_passes();
      const S before = walk;
      Part part;
      const Step step =
          walk.step(progress, std::min(kChunk, most_records() - count()), part);
      if (step == Step::kWait) {
        this->note_need(walk);
        return Outcome::kWait;
      }
      if (step == Step::kFinished) {
        this->note_finished(walk);
        walk = before;  // what ends a pass is not done twice
        break;
      }
      const std::uint64_t taken = add(walk, part);
      if (taken == part.count) continue;
      // The next one does not fit: the walk has gone too far.
      walk = before;
      if (taken > 0) walk.step(progress, taken, part);
    }
    const bool whole = full_ || count() == most_records();
    if (whole || (count() > 0 && !options_.drop_last)) return Outcome::kBatch;
    return Outcome::kFinished;
  }

  /// Of a batch. A row less for each would be none: empty records are counted, too.
  std::uint64_t most_records() const {
    return options_.lengths.max_rows > 0 ? options_.window : options_.batch_size;
  }

  /// Adds the records of a part that `walk` has stepped over, up to the first that does
  /// not fit; their number.
  template <class S>
  std::uint64_t add(const S& walk, const Part& part) {
    const Permutation& order = this->order_of(part);
    std::uint32_t records[kChunk];
    const std::uint64_t window = epoch_.position(part.window.first);
    PassPart drawn{order,     window,        part.offset, part.count,
                   part.draw, epoch_.number, part.sparse, part.window.first,
                   nullptr,   part.selection};
    drawn.places(part.offset, part.count, records);
    // A window is at most a ring.
    const std::uint64_t first = ring_.slot(window);
    std::uint64_t taken = 0;
    for (; taken < part.count; ++taken) {
      const std::uint64_t next = first + records[taken];
      const std::uint64_t slot =
          next < ring_.capacity() ? next : next - ring_.capacity();
      if (options_.lengths.max_rows > 0 && !fits(slot)) break;
      prefetch_for_read(reinterpret_cast<const std::byte*>(&rows_table_.rows(slot, 0)));
      plan_.slots.push_back(slot);
    }
    if (taken > 0) {
      plan_.end = std::max(plan_.end, window + part.window.count);
      plan_.orders.push_back(order);
      if (const Echoes* echoes = this->echoes_of(walk, part)) {
        plan_.echoes.push_back(*echoes);
        drawn.echoes = &plan_.echoes.back();
        for (std::uint64_t i = 0; i < taken; ++i)
          plan_.uses.push_back({part.window.first + records[i], drawn.echo(records[i]),
                                versions_ ? versions_->at(window + records[i]) : 0});
      }
      plan_.parts.push_back({plan_.orders.back(), window, part.offset, taken, part.draw,
                             epoch_.number, part.sparse, part.window.first,
                             drawn.echoes, part.selection});
    }
    return taken;
  }

  /// Counts the rows of a record, or says that they are too many for this batch.
  bool fits(std::uint64_t slot) {
    const bool padded = options_.lengths.form == LengthOptions::Form::kPadded;
    std::uint64_t longest = longest_;
    bool fit = true;
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      const std::uint64_t rows = rows_table_.rows(slot, f).count;
      longest = std::max(longest, rows);
      // Divided, not multiplied: `pad_to` may be any number.
      const std::uint64_t most = options_.lengths.max_rows / (padded ? count() + 1 : 1);
      const std::uint64_t all =
          round_up(padded ? longest : rows_[f] + rows, options_.lengths.pad_to);
      fit = fit && all <= most;
    }
    if (!fit && count() > 0) {
      full_ = true;
      return false;
    }
    longest_ = longest;
    for (std::size_t f = 0; f < rows_.size(); ++f)
      rows_[f] += rows_table_.rows(slot, f).count;
    return true;
  }

  /// Counts the rows that were drawn, and those of the batch with its padding once all
  /// of it was drawn.
  void count_rows(bool apart) {
    const LengthOptions& lengths = options_.lengths;
    for (std::size_t f = 0; f < counted_.size(); ++f) {
      Counted& field = counted_[f];
      for (const std::uint64_t slot : plan_.slots) {
        const std::uint64_t examples = rows_table_.examples_of(slot);
        field.examples += examples;
        for (std::uint64_t i = 0; i < examples; ++i) {
          const std::uint64_t rows = rows_table_.example(slot, f, i).count;
          field.all += rows;
          field.longest = std::max(field.longest, rows);
        }
      }
      if (apart || !in_batches_[f]) continue;
      const bool padded = lengths.form == LengthOptions::Form::kPadded;
      const std::uint64_t drawn =
          padded ? round_up(field.longest, lengths.pad_to) * field.examples
                 : round_up(field.all, lengths.pad_to);
      this->counts_.add_drawn(drawn, field.all);
      field = {};
    }
  }

  /// Returns whether batches have a leaf of a field that has as many rows as the
  /// record.
  bool is_in_batches(std::size_t field) const {
    for (const LeafOptions& leaf : options_.leaves)
      if (leaf.field == field && !(leaf.rows && leaf.rows->windowed())) return true;
    return false;
  }

  void forget_apart() {
    partial_count_ = partial_longest_ = 0;
    std::fill(partial_rows_.begin(), partial_rows_.end(), 0);
  }

  const Versions* const versions_;
  PayloadPlan plan_;                 // of the batch that is next
  std::vector<std::uint64_t> rows_;  // of all records of the batch, by field
  std::uint64_t longest_ = 0;
  bool crossed_ = false;  // a pass has ended in it
  bool full_ = false;     // the next record does not fit
  Sweep after_;

  // Of the first records of the batch, where they were set apart.
  std::uint64_t partial_count_ = 0;
  std::uint64_t partial_longest_ = 0;
  std::vector<std::uint64_t> partial_rows_;

  /// The rows of a field in the batch that is being drawn.
  struct Counted {
    std::uint64_t examples = 0;
    std::uint64_t all = 0;
    std::uint64_t longest = 0;
  };
  std::vector<Counted> counted_;
  std::vector<bool> in_batches_;
};

}  // namespace echobuf
