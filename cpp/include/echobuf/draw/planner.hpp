// The plan of the next batch: which records it has, from the schedule, which the
// lengths of records shape if they have rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/draw/rows_segments.hpp"
#include "echobuf/leaf_options.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// The records of a batch in the order of their draws.
struct BatchPlan {
  std::deque<Permutation> orders;                     // of the parts
  std::vector<std::shared_ptr<const Echoes>> echoes;  // the same, where draws know them
  std::vector<PassPart> parts;
  std::uint64_t records = 0;         // of all parts
  std::vector<std::uint64_t> slots;  // of all records, where the plan lists them
  std::vector<DrawnUse> uses;        // the same, where draws know them
  std::uint64_t end = 0;             // ring position up to which records are read

  void clear() {
    parts.clear();
    orders.clear();
    echoes.clear();
    records = 0;
    slots.clear();
    uses.clear();
    end = 0;
  }
};

/// Which records plans list one by one, beside the parts of passes that they are.
enum class Lists {
  kRows,  // those that have rows
  kUses,  // these, and where draws know their uses, or passes leave records out
};

/// `Ring`: of the window, in host memory or on a device.
template <class Ring>
class Planner : public PassCursor<Ring> {
  using Cursor = PassCursor<Ring>;

 public:
  using Outcome = DrawOutcome;

  /// `versions`: of the records, for the uses of a plan; null: 0.
  Planner(const BufferOptions& options, Ring& ring, const WindowRows& rows, Lists lists,
          const Versions* versions)
      : Cursor(options, ring, versions, rows),
        table_(rows.table),
        lists_(table_ ||
               (lists == Lists::kUses && (options.echoes || options.expires()))),
        versions_(versions && versions->bytes() > 0 ? versions : nullptr),
        rows_(table_ ? table_->fields().size() : 0),
        after_(sweep_),
        partial_rows_(rows_.size()),
        counted_(rows_.size()) {
    for (std::size_t f = 0; f < counted_.size(); ++f)
      in_batches_.push_back(options.leaves.empty() ||
                            is_in_batches(table_->fields()[f].field));
  }

  bool ready() override { return plan() != Outcome::kWait; }
  bool finished() override { return plan() == Outcome::kFinished; }

 protected:
  using Cursor::epoch_;
  using Cursor::options_;
  using Cursor::ring_;
  using Cursor::sweep_;

  /// Walks a copy of the schedule until a whole batch is sure.
  Outcome plan() {
    begin_plan();
    after_ = sweep_;
    return std::visit([this](auto& walk) { return this->walk_on(walk); }, after_);
  }

  const BatchPlan& planned() const { return plan_; }
  /// Records of the batch, with those that were set apart.
  std::uint64_t count() const { return partial_count_ + plan_.records; }
  /// Those that were.
  std::uint64_t apart_count() const { return partial_count_; }

  /// Appends the numbers, among the epoch's fresh examples, of the records planned.
  void list_records(std::vector<std::int64_t>& to) const {
    for (const PassPart& part : plan_.parts) {
      for (std::uint64_t done = 0; done < part.count;) {
        std::uint32_t places[kChunk];
        const std::uint64_t some = std::min(kChunk, part.count - done);
        part.places(part.offset + done, some, places);
        for (std::uint64_t i = 0; i < some; ++i)
          to.push_back(static_cast<std::int64_t>(part.record + places[i]));
        done += some;
      }
    }
  }

  /// The plan was carried out; `apart`: its records are the first of the next one.
  void go_on(bool apart) {
    go_ahead(apart);
    this->give_back();
  }
  /// The same, where the places of its records are still read: give_back() follows.
  void go_ahead(bool apart) {
    if (this->crossed_) ring_.clear_held_back();
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
  /// everything in the middle of a batch, and where passes, which leave records out,
  /// are of any length; else where a batch of records with rows spans more segments
  /// than there is room for.
  bool must_set_apart() const {
    const auto* walk = std::get_if<FixedSweep>(&after_);
    if (!walk || this->expires()) return true;
    if (!table_) return false;
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
    this->crossed_ = full_ = false;
  }

  template <class S>
  Outcome walk_on(S& walk) {
    while (!full_ && count() < most_records()) {
      UpstreamProgress progress;
      if (const auto end = this->look(walk, progress)) return *end;
      this->crossed_ = this->crossed_ || this->crosses(walk);
      const S before = walk;
      Part part;
      const std::uint64_t left = most_records() - count();
      const Step step =
          walk.step(progress, table_ ? std::min(kChunk, left) : left, part);
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
    plan_.orders.push_back(this->order_of(part));
    plan_.echoes.push_back(this->echoes_of(walk, part));
    const std::uint64_t window = epoch_.position(part.window.first);
    PassPart drawn{plan_.orders.back(),
                   window,
                   part.offset,
                   part.count,
                   part.draw,
                   epoch_.number,
                   part.sparse,
                   part.window.first,
                   plan_.echoes.back().get(),
                   part.selection};
    if (lists_) drawn.count = list(drawn);
    if (drawn.count == 0) return 0;
    plan_.records += drawn.count;
    plan_.end = std::max(plan_.end, window + part.window.count);
    plan_.parts.push_back(std::move(drawn));
    return plan_.parts.back().count;
  }

  /// Lists the records of a part, up to the first that does not fit; their number.
  std::uint64_t list(const PassPart& part) {
    std::uint64_t taken = 0;
    while (taken < part.count && !full_) {
      std::uint32_t places[kChunk];
      const std::uint64_t some = std::min(kChunk, part.count - taken);
      part.places(part.offset + taken, some, places);
      taken += list(part, places, some, taken);
    }
    return taken;
  }

  /// The same of those at `count` places, behind `before` of the part.
  std::uint64_t list(const PassPart& part, const std::uint32_t* places,
                     std::uint64_t count, std::uint64_t before) {
    // A window is at most a ring.
    const std::uint64_t capacity = ring_.capacity();
    const std::uint64_t first = part.window % capacity;
    const std::size_t listed = plan_.slots.size();
    plan_.slots.resize(listed + count);
    std::uint64_t* const slots = plan_.slots.data() + listed;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t slot = first + places[i];
      slots[i] = slot < capacity ? slot : slot - capacity;
    }
    if (table_)
      for (std::uint64_t i = 0; i < count; ++i)
        prefetch_for_read(
            reinterpret_cast<const std::byte*>(&table_->rows(slots[i], 0)));
    std::uint64_t taken = options_.lengths.max_rows > 0 ? 0 : count;
    while (taken < count && has_room_for(slots[taken], before + taken)) ++taken;
    plan_.slots.resize(listed + taken);
    for (std::uint64_t i = 0; options_.echoes && i < taken; ++i)
      plan_.uses.push_back({part.record + places[i], part.echo(places[i]),
                            versions_ ? versions_->at(part.window + places[i]) : 0});
    return taken;
  }

  /// Counts the rows of a record, `taken` of whose part come before it, or says that
  /// they are too many for this batch.
  bool has_room_for(std::uint64_t slot, std::uint64_t taken) {
    const bool padded = options_.lengths.form == LengthOptions::Form::kPadded;
    const std::uint64_t before = count() + taken;
    std::uint64_t longest = longest_;
    bool fit = true;
    for (std::size_t f = 0; f < rows_.size(); ++f) {
      const std::uint64_t rows = table_->rows(slot, f).count;
      longest = std::max(longest, rows);
      // Divided, not multiplied: `pad_to` may be any number.
      const std::uint64_t most = options_.lengths.max_rows / (padded ? before + 1 : 1);
      const std::uint64_t all =
          round_up(padded ? longest : rows_[f] + rows, options_.lengths.pad_to);
      fit = fit && all <= most;
    }
    if (!fit && before > 0) {
      full_ = true;
      return false;
    }
    longest_ = longest;
    for (std::size_t f = 0; f < rows_.size(); ++f)
      rows_[f] += table_->rows(slot, f).count;
    return true;
  }

  /// Counts the rows that were drawn, and those of the batch with its padding once all
  /// of it was drawn.
  void count_rows(bool apart) {
    const LengthOptions& lengths = options_.lengths;
    for (std::size_t f = 0; f < counted_.size(); ++f) {
      Counted& field = counted_[f];
      for (const std::uint64_t slot : plan_.slots) {
        const std::uint64_t examples = table_->examples_of(slot);
        field.examples += examples;
        for (std::uint64_t i = 0; i < examples; ++i) {
          const std::uint64_t rows = table_->example(slot, f, i).count;
          field.all += rows;
          field.longest = std::max(field.longest, rows);
        }
      }
      if (apart || !in_batches_[f]) continue;
      const bool padded = lengths.form == LengthOptions::Form::kPadded;
      const std::uint64_t drawn =
          padded ? round_up(field.longest, lengths.pad_to) * field.examples
                 : round_up(field.all, lengths.pad_to);
      this->segments_->counts().add_drawn(drawn, field.all);
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

  const RowsTable* const table_;  // null: records have no rows
  const bool lists_;
  const Versions* const versions_;
  BatchPlan plan_;                   // of the batch that is next
  std::vector<std::uint64_t> rows_;  // of all records of the batch, by field
  std::uint64_t longest_ = 0;
  bool full_ = false;  // the next record does not fit
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
