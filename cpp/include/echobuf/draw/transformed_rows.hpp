// The leaves of a batch that plans make of fields of any number of rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/copy_ahead.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/rows_maker.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/payload.hpp"

namespace echobuf {

class TransformedRows {
 public:
  using Form = LengthOptions::Form;

  /// Throws std::bad_alloc; later only what lengths of a batch take.
  TransformedRows(const Payload& payload, const BatchLayout& batch,
                  const BufferOptions& options)
      : payload_(payload), table_(payload.table()), options_(options) {
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      const BatchLayout::Leaf& leaf = batch.all()[i];
      if (!leaf.rows) continue;
      for (std::size_t f = 0; f < table_.fields().size(); ++f)
        if (table_.fields()[f].field == leaf.field) add(i, f, options.leaves[i]);
    }
  }

  /// Finds the places of the leaves in a batch of the records of `before`, in the
  /// packed form, and of those of `drawn`. `add`: takes bytes and returns their offset.
  template <class Add>
  void lay_out(const BatchPlan& drawn, const Batch& before, Form form, Batch& batch,
               Add&& add) {
    for (Leaf& leaf : leaves_) {
      LeafPlace& place = batch.places[leaf.number];
      const std::size_t bytes = leaf.plan().bytes;
      if (leaf.plan().windowed()) {
        place.values = add(size_product(bytes, batch.count));
        continue;
      }
      find_lengths(leaf, drawn, before);
      const bool packed = form == Form::kPacked;
      std::uint64_t rows = 0;
      for (const std::uint64_t length : leaf.lengths)
        rows = packed ? rows + length : std::max(rows, length);
      place.rows = round_up(rows, options_.lengths.pad_to);
      place.index = add((batch.count + (packed ? 1 : 0)) * sizeof(std::int64_t));
      place.values =
          add(size_product(size_product(place.rows, bytes), packed ? 1 : batch.count));
    }
  }

  /// Makes the leaves, where lay_out() of the same batch has placed them. `go_on`:
  /// takes the bytes that were written; false stops it.
  template <class GoOn>
  bool draw(const BatchPlan& drawn, const Batch& before, Form form, const Batch& batch,
            GoOn&& go_on) {
    bool streamed = false;
    for (Leaf& leaf : leaves_) {
      const bool done = leaf.plan().windowed()
                            ? draw_windows(leaf, drawn, before, batch, go_on)
                            : draw_all(leaf, drawn, before, form, batch, go_on);
      if (!done) return false;
      streamed = streamed || leaf.past_caches;
    }
    if (streamed) finish_streaming();
    return true;
  }

 private:
  struct Leaf {
    std::size_t number;  // of the batch
    std::size_t field;   // of the store's
    bool past_caches;
    RowsMaker maker;
    const std::vector<std::byte>& pad;        // of what is made
    std::vector<std::uint64_t> lengths = {};  // of the batch, in its order

    const RowsPlan& plan() const { return maker.plan(); }
  };

  static constexpr std::size_t kAhead = 4;  // records

  void add(std::size_t number, std::size_t field, const LeafOptions& options) {
    const RowsPlan& plan = *options.rows;
    const RaggedField& of = table_.fields()[field];
    const bool past_caches =
        plan.windowed() && plan.bytes * options_.most_examples() >= kStreamFrom;
    leaves_.push_back({number, field, past_caches, RowsMaker(plan, of.pad, past_caches),
                       options.pad});
  }

  static std::int64_t* index_of(const Batch& batch, const LeafPlace& place) {
    return reinterpret_cast<std::int64_t*>(batch.block.data() + place.index);
  }

  void find_lengths(Leaf& leaf, const BatchPlan& drawn, const Batch& before) const {
    leaf.lengths.clear();
    if (before.count > 0) {
      const std::int64_t* const offsets = index_of(before, before.places[leaf.number]);
      for (std::uint64_t i = 0; i < before.count; ++i)
        leaf.lengths.push_back(static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]));
    }
    for (const std::uint64_t slot : drawn.slots)
      for (std::uint64_t i = 0; i < table_.examples_of(slot); ++i)
        leaf.lengths.push_back(table_.example(slot, leaf.field, i).count);
  }

  /// Calls `make` with each draw (of a whole batch, with each of its examples), its
  /// rows and its number among those of `drawn`.
  template <class Make>
  bool for_each(const Leaf& leaf, const BatchPlan& drawn, Make&& make) const {
    const std::size_t row = table_.fields()[leaf.field].row_bytes;
    std::size_t record = 0;
    std::size_t example = 0;
    for (const PassPart& part : drawn.parts)
      for (std::uint64_t draw = 0; draw < part.count; ++draw, ++record) {
        if (record + kAhead < drawn.slots.size())
          prefetch_for_read(
              payload_.data() +
              table_.rows(drawn.slots[record + kAhead], leaf.field).offset);
        const std::uint64_t slot = drawn.slots[record];
        const auto examples = static_cast<std::uint32_t>(table_.examples_of(slot));
        for (std::uint32_t i = 0; i < examples; ++i, ++example) {
          const RowsTable::Rows& rows = table_.example(slot, leaf.field, i);
          Drawn number{options_.seed, part.epoch, part.draw + draw, i,
                       nullptr,       nullptr};
          if (!drawn.uses.empty()) number.use(drawn.uses[record]);
          const RowsSource source{payload_.data() + rows.offset, rows.count * row};
          if (!make(number, source, example)) return false;
        }
      }
    return true;
  }

  template <class GoOn>
  bool draw_windows(Leaf& leaf, const BatchPlan& drawn, const Batch& before,
                    const Batch& batch, GoOn&& go_on) const {
    const std::size_t bytes = leaf.plan().bytes;
    std::byte* target = batch.block.data() + batch.places[leaf.number].values;
    if (before.count > 0)
      std::memcpy(target, before.block.data() + before.places[leaf.number].values,
                  before.count * bytes);
    target += before.count * bytes;
    return for_each(leaf, drawn,
                    [&](const Drawn& number, const RowsSource& rows, std::size_t i) {
                      leaf.maker.make(number, rows, target + i * bytes);
                      return go_on(bytes);
                    });
  }

  template <class GoOn>
  bool draw_all(Leaf& leaf, const BatchPlan& drawn, const Batch& before, Form form,
                const Batch& batch, GoOn&& go_on) const {
    const LeafPlace& place = batch.places[leaf.number];
    const std::size_t row = leaf.plan().bytes;
    const std::size_t longest = place.rows * row;  // of each, if padded
    const bool packed = form == Form::kPacked;
    std::int64_t* const index = index_of(batch, place);
    std::byte* const values = batch.block.data() + place.values;
    std::size_t at = 0;
    if (packed) index[0] = 0;
    const auto wrote = [&](std::size_t i) {
      const std::size_t bytes = leaf.lengths[i] * row;
      if (!packed) fill_rows(values + at + bytes, longest - bytes, leaf.pad);
      at += packed ? bytes : longest;
      index[i + (packed ? 1 : 0)] =
          static_cast<std::int64_t>(packed ? at / row : leaf.lengths[i]);
      return go_on(bytes);
    };
    if (before.count > 0) {
      const std::byte* from = before.block.data() + before.places[leaf.number].values;
      for (std::uint64_t i = 0; i < before.count; ++i) {
        const std::size_t bytes = leaf.lengths[i] * row;
        if (bytes > 0) std::memcpy(values + at, from, bytes);
        from += bytes;
        if (!wrote(i)) return false;
      }
    }
    if (!for_each(leaf, drawn,
                  [&](const Drawn& number, const RowsSource& rows, std::size_t i) {
                    leaf.maker.make(number, rows, values + at);
                    return wrote(before.count + i);
                  }))
      return false;
    if (packed) fill_rows(values + at, longest - at, leaf.pad);
    return true;
  }

  const Payload& payload_;
  const RowsTable& table_;
  const BufferOptions& options_;
  std::vector<Leaf> leaves_;
};

}  // namespace echobuf
