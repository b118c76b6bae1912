// A batch of records with rows, drawn from the window in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_draw.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/rows_maker.hpp"
#include "echobuf/options.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/host_store.hpp"

namespace echobuf {

class HostRowsDraw {
 public:
  using Form = LengthOptions::Form;

  /// Throws std::bad_alloc. `batch`: where the fields of any length have no bytes.
  /// `fixed`: draws the other ones; all must outlive it.
  HostRowsDraw(const HostStore& store, const BatchLayout& batch,
               const BufferOptions& options, std::shared_ptr<BatchPool> pool,
               HostDraw& fixed)
      : payload_(*store.payload()),
        table_(payload_.table()),
        batch_(batch),
        options_(options),
        pool_(std::move(pool)),
        fixed_(fixed),
        fixed_leaves_(batch.leaves()) {
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      has_fixed_ = has_fixed_ || batch.all()[i].bytes > 0;
      for (std::size_t f = 0; f < table_.fields().size(); ++f)
        if (table_.fields()[f].field == batch.all()[i].field) add_leaf(i, f);
    }
  }

  /// Lays out a batch of `before`, one that was drawn in the packed form, or none, and
  /// of the records of `plan` behind it. It has no memory yet.
  Batch begin(const BatchPlan& plan, const Batch& before, Form form) {
    Batch batch;
    batch.count = before.count;
    for (const std::uint64_t slot : plan.slots) batch.count += table_.examples_of(slot);
    batch.places.assign(batch_.leaves(), {});
    bytes_ = 0;
    const auto add = [&](std::size_t more) {
      const std::size_t at = bytes_;
      bytes_ += round_up(more, kLeafAlignment);
      return at;
    };
    for (std::size_t i = 0; i < batch_.leaves(); ++i)
      batch.places[i].values = add(size_product(batch_.all()[i].bytes, batch.count));
    for (Leaf& leaf : leaves_) {
      find_sources(leaf, plan, before);
      LeafPlace& place = batch.places[leaf.number];
      if (leaf.windowed())
        place.values = add(size_product(leaf.row, batch.count));
      else
        place =
            place_rows(extent_of(leaf), leaf.row, options_.lengths.pad_to, form, add);
    }
    return batch;
  }

  /// Makes the batch that begin() has laid out last, as `made`. Nothing, if the poll
  /// said stop. Throws std::bad_alloc.
  bool draw(const BatchPlan& plan, const Batch& before, Form form, Batch made,
            Batch& batch, Poll* poll) {
    made.block = pool_->take(std::max(bytes_, kLeafAlignment));  // it may be empty
    if (!draw_fixed(plan, before, made, poll)) return false;
    const bool past_caches = bytes_ >= kStreamFrom;
    bool streamed = false;
    for (Leaf& leaf : leaves_) {
      const bool done = leaf.windowed() ? make_windows(leaf, plan, before, made, poll)
                        : leaf.maker    ? make_rows(leaf, plan, form, made, poll)
                                     : copy_rows(leaf, form, past_caches, made, poll);
      if (!done) return false;
      streamed = streamed || (leaf.maker ? leaf.past_caches : past_caches);
    }
    if (streamed) finish_streaming();
    batch = std::move(made);
    return true;
  }

 private:
  /// A leaf of the batch that is copied, or made, of a field of any number of rows.
  struct Leaf {
    std::size_t number;  // of the batch
    const RaggedField& field;
    std::size_t field_number;  // of the table's
    std::size_t row;           // bytes of a row of the leaf, or of a window
    const std::vector<std::byte>& pad;
    bool past_caches;
    std::optional<RowsMaker> maker;  // none: its rows are those of the field
    // Of the batch, in its order: the rows of the leaf in the first examples, where
    // these were drawn before, and the rows of the field in the others.
    std::vector<RowsSource> sources = {};
    std::size_t before = 0;  // so many are the first

    bool windowed() const { return maker && maker->plan().windowed(); }
  };

  static constexpr std::size_t kAhead = 4;  // examples

  void add_leaf(std::size_t number, std::size_t field_number) {
    const RaggedField& field = table_.fields()[field_number];
    const RowsPlan* const plan = batch_.all()[number].rows;
    if (!plan) {
      leaves_.push_back({number, field, field_number, field.row_bytes, field.pad, false,
                         std::nullopt});
      return;
    }
    const bool past_caches =
        plan->windowed() && plan->bytes * options_.most_examples() >= kStreamFrom;
    leaves_.push_back({number, field, field_number, plan->bytes,
                       options_.leaves[number].pad, past_caches,
                       RowsMaker(*plan, field.pad, past_caches)});
  }

  void find_sources(Leaf& leaf, const BatchPlan& plan, const Batch& before) const {
    std::vector<RowsSource>& sources = leaf.sources;
    sources.clear();
    leaf.before = leaf.windowed() ? 0 : before.count;
    if (leaf.before > 0) {
      const LeafPlace& place = before.places[leaf.number];
      const std::int64_t* const offsets = index_of(before, place);
      const std::byte* const values = before.block.data() + place.values;
      for (std::uint64_t i = 0; i < before.count; ++i)
        sources.push_back(
            {values + static_cast<std::size_t>(offsets[i]) * leaf.row,
             static_cast<std::size_t>(offsets[i + 1] - offsets[i]) * leaf.row});
    }
    if (table_.in_batches()) {
      for (const std::uint64_t slot : plan.slots)
        for (std::uint64_t i = 0; i < table_.examples_of(slot); ++i)
          sources.push_back(
              source_of(leaf, table_.example(slot, leaf.field_number, i)));
      return;
    }
    std::size_t at = sources.size();
    sources.resize(at + plan.slots.size());
    for (const std::uint64_t slot : plan.slots)
      sources[at++] = source_of(leaf, table_.rows(slot, leaf.field_number));
  }

  RowsSource source_of(const Leaf& leaf, const RowsTable::Rows& rows) const {
    return {payload_.data() + rows.offset, rows.count * leaf.field.row_bytes};
  }

  static RowsExtent extent_of(const Leaf& leaf) {
    RowsExtent extent{leaf.sources.size()};
    const auto add = [&](std::size_t from, std::size_t to, std::size_t row) {
      std::size_t all = 0;
      std::size_t longest = 0;
      for (std::size_t i = from; i < to; ++i) {
        all += leaf.sources[i].bytes;
        longest = std::max(longest, leaf.sources[i].bytes);
      }
      extent.all += all / row;
      extent.longest = std::max<std::uint64_t>(extent.longest, longest / row);
    };
    add(0, leaf.before, leaf.row);
    add(leaf.before, leaf.sources.size(), leaf.field.row_bytes);
    return extent;
  }

  bool draw_fixed(const BatchPlan& plan, const Batch& before, const Batch& batch,
                  Poll* poll) {
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      fixed_leaves_[i] = batch.block.data() + batch.places[i].values;
      if (before.count > 0 && batch_.all()[i].bytes > 0)
        std::memcpy(fixed_leaves_[i], before.block.data() + before.places[i].values,
                    before.count * batch_.all()[i].bytes);
    }
    if (!has_fixed_) return true;
    Target target{fixed_leaves_.data(), before.count};
    for (const PassPart& part : plan.parts)
      if (!fixed_.draw(part, target, poll)) return false;
    return true;
  }

  bool copy_rows(const Leaf& leaf, Form form, bool past_caches, const Batch& batch,
                 Poll* poll) {
    RowsWriter writer(batch, batch.places[leaf.number], leaf.row, form, leaf.pad);
    RowsCopier copy(leaf.sources.data(), leaf.sources.size(), past_caches);
    for (const RowsSource& source : leaf.sources) {
      copy(writer.next());
      writer.wrote(source.bytes);
      if (!meter_.go_on(source.bytes, poll)) return false;
    }
    writer.finish();
    return true;
  }

  bool make_rows(Leaf& leaf, const BatchPlan& plan, Form form, const Batch& batch,
                 Poll* poll) {
    RowsWriter writer(batch, batch.places[leaf.number], leaf.row, form, leaf.pad);
    const auto wrote = [&](std::size_t bytes) {
      writer.wrote(bytes);
      return meter_.go_on(bytes, poll);
    };
    for (std::size_t i = 0; i < leaf.before; ++i) {
      const RowsSource& made = leaf.sources[i];
      if (made.bytes > 0) std::memcpy(writer.next(), made.data, made.bytes);
      if (!wrote(made.bytes)) return false;
    }
    const bool done =
        for_each(leaf, plan, [&](const Drawn& drawn, const RowsSource& rows) {
          leaf.maker->make(drawn, rows, writer.next());
          return wrote(rows.bytes / leaf.field.row_bytes * leaf.row);
        });
    if (done) writer.finish();
    return done;
  }

  bool make_windows(Leaf& leaf, const BatchPlan& plan, const Batch& before,
                    const Batch& batch, Poll* poll) {
    std::byte* target = batch.block.data() + batch.places[leaf.number].values;
    if (before.count > 0)
      std::memcpy(target, before.block.data() + before.places[leaf.number].values,
                  before.count * leaf.row);
    target += before.count * leaf.row;
    return for_each(leaf, plan, [&](const Drawn& drawn, const RowsSource& rows) {
      leaf.maker->make(drawn, rows, target);
      target += leaf.row;
      return meter_.go_on(leaf.row, poll);
    });
  }

  /// Calls `make` with each draw of the plan (of a whole batch, with each of its
  /// examples) and its rows, until that returns false.
  template <class Make>
  bool for_each(const Leaf& leaf, const BatchPlan& plan, const Make& make) const {
    std::size_t record = 0;
    std::size_t source = leaf.before;
    for (const PassPart& part : plan.parts)
      for (std::uint64_t draw = 0; draw < part.count; ++draw, ++record) {
        const auto examples =
            static_cast<std::uint32_t>(table_.examples_of(plan.slots[record]));
        for (std::uint32_t i = 0; i < examples; ++i, ++source) {
          if (source + kAhead < leaf.sources.size())
            prefetch_for_read(leaf.sources[source + kAhead].data);
          Drawn drawn{options_.seed, part.epoch, part.draw + draw, i, nullptr, nullptr};
          if (!plan.uses.empty()) drawn.use(plan.uses[record]);
          if (!make(drawn, leaf.sources[source])) return false;
        }
      }
    return true;
  }

  const Payload& payload_;
  const RowsTable& table_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  const std::shared_ptr<BatchPool> pool_;
  HostDraw& fixed_;
  bool has_fixed_ = false;  // leaves of one size
  std::vector<std::byte*> fixed_leaves_;
  std::vector<Leaf> leaves_;
  std::size_t bytes_ = 0;  // of the batch that was laid out last
  PollMeter meter_;
};

}  // namespace echobuf
