// A batch of records with rows, drawn from the window in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_draw.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/transformed_rows.hpp"
#include "echobuf/options.hpp"
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
        transformed_(payload_, batch, options),
        sources_(table_.fields().size()),
        leaves_(batch.leaves()) {
    for (const BatchLayout::Leaf& leaf : batch.all())
      has_fixed_ = has_fixed_ || leaf.bytes > 0;
    for (std::size_t i = 0; i < batch.leaves(); ++i)
      for (std::size_t f = 0; f < table_.fields().size(); ++f)
        if (batch.all()[i].field == table_.fields()[f].field && !batch.all()[i].rows)
          ragged_.push_back({i, f});
  }

  /// Lays out a batch of `before`, one that was drawn in the packed form, or none, and
  /// of the records of `plan` behind it. Returns its bytes; it has no memory yet.
  std::size_t begin(const BatchPlan& plan, const Batch& before, Form form,
                    Batch& batch) {
    batch.count = before.count;
    for (const std::uint64_t slot : plan.slots) batch.count += table_.examples_of(slot);
    find_sources(plan, before);
    return lay_out(plan, before, batch, form);
  }

  /// Makes the batch that begin() has laid out last, as `made`, of so many bytes.
  /// Nothing, if the poll said stop. Throws std::bad_alloc.
  bool draw(const BatchPlan& plan, const Batch& before, Form form, std::size_t bytes,
            Batch made, Batch& batch, Poll* poll) {
    made.block = pool_->take(bytes);
    if (!draw_fixed(plan, before, made, poll)) return false;
    const bool stream = bytes >= kStreamFrom;
    for (const Ragged& leaf : ragged_)
      if (!copy_rows(leaf, form, stream, made, poll)) return false;
    if (stream) finish_streaming();
    const auto go_on = [&](std::size_t written) { return this->go_on(written, poll); };
    if (!transformed_.draw(plan, before, form, made, go_on)) return false;
    batch = std::move(made);
    return true;
  }

 private:
  /// A leaf of the batch, and the field of the store's that it has the rows of.
  struct Ragged {
    std::size_t leaf;
    std::size_t field;
  };

  static constexpr std::size_t kPollBytes = std::size_t{16} << 20;

  std::size_t row_bytes(const Ragged& leaf) const {
    return table_.fields()[leaf.field].row_bytes;
  }

  /// Fills `sources_`, by field.
  void find_sources(const BatchPlan& plan, const Batch& before) {
    for (const Ragged& leaf : ragged_) {
      std::vector<RowsSource>& sources = sources_[leaf.field];
      sources.clear();
      const std::size_t row = row_bytes(leaf);
      if (before.count > 0) {
        const LeafPlace& place = before.places[leaf.leaf];
        const auto* offsets = index_of(before, place);
        const std::byte* const values = before.block.data() + place.values;
        for (std::uint64_t i = 0; i < before.count; ++i)
          sources.push_back(
              {values + static_cast<std::size_t>(offsets[i]) * row,
               static_cast<std::size_t>(offsets[i + 1] - offsets[i]) * row});
      }
      if (table_.in_batches()) {
        for (const std::uint64_t slot : plan.slots)
          for (std::uint64_t i = 0; i < table_.examples_of(slot); ++i)
            sources.push_back(source_of(table_.example(slot, leaf.field, i), row));
        continue;
      }
      std::size_t at = sources.size();
      sources.resize(at + plan.slots.size());
      for (const std::uint64_t slot : plan.slots)
        sources[at++] = source_of(table_.rows(slot, leaf.field), row);
    }
  }

  RowsSource source_of(const RowsTable::Rows& rows, std::size_t row) const {
    return {payload_.data() + rows.offset, rows.count * row};
  }

  static std::int64_t* index_of(const Batch& batch, const LeafPlace& place) {
    return reinterpret_cast<std::int64_t*>(batch.block.data() + place.index);
  }

  /// Finds the places of the leaves, and returns the bytes of the batch.
  std::size_t lay_out(const BatchPlan& plan, const Batch& before, Batch& batch,
                      Form form) {
    batch.places.assign(batch_.leaves(), {});
    std::size_t bytes = 0;
    const auto add = [&](std::size_t more) {
      const std::size_t at = bytes;
      bytes += round_up(more, kLeafAlignment);
      return at;
    };
    for (std::size_t i = 0; i < batch_.leaves(); ++i)
      batch.places[i].values = add(size_product(batch_.all()[i].bytes, batch.count));
    for (const Ragged& leaf : ragged_) {
      LeafPlace& place = batch.places[leaf.leaf];
      const bool packed = form == Form::kPacked;
      std::size_t all = 0;
      std::size_t longest = 0;
      for (const RowsSource& source : sources_[leaf.field]) {
        all += source.bytes;
        longest = std::max(longest, source.bytes);
      }
      const std::size_t row = row_bytes(leaf);
      place.rows = round_up((packed ? all : longest) / row, options_.lengths.pad_to);
      const std::size_t records = packed ? 1 : batch.count;
      place.index = add((batch.count + (packed ? 1 : 0)) * sizeof(std::int64_t));
      place.values = add(size_product(size_product(place.rows, row), records));
    }
    transformed_.lay_out(plan, before, form, batch, add);
    return std::max(bytes, kLeafAlignment);  // a whole batch may have no examples
  }

  bool draw_fixed(const BatchPlan& plan, const Batch& before, const Batch& batch,
                  Poll* poll) {
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      leaves_[i] = batch.block.data() + batch.places[i].values;
      if (before.count > 0 && batch_.all()[i].bytes > 0)
        std::memcpy(leaves_[i], before.block.data() + before.places[i].values,
                    before.count * batch_.all()[i].bytes);
    }
    if (!has_fixed_) return true;
    Target target{leaves_.data()};
    std::uint64_t row = before.count;
    for (const PassPart& part : plan.parts) {
      if (!fixed_.draw(part, target, row, poll)) return false;
      row += part.count;
    }
    return true;
  }

  bool copy_rows(const Ragged& leaf, Form form, bool stream, const Batch& batch,
                 Poll* poll) {
    const std::vector<RowsSource>& sources = sources_[leaf.field];
    const RaggedField& field = table_.fields()[leaf.field];
    const LeafPlace& place = batch.places[leaf.leaf];
    std::byte* const values = batch.block.data() + place.values;
    std::int64_t* const index = index_of(batch, place);
    const bool packed = form == Form::kPacked;
    const std::size_t length = place.rows * field.row_bytes;  // of each, if padded
    RowsCopier copy(sources.data(), sources.size(), stream);
    std::size_t at = 0;
    if (packed) index[0] = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::size_t bytes = sources[i].bytes;
      copy(values + at);
      if (packed) {
        at += bytes;
      } else {
        fill_rows(values + at + bytes, length - bytes, field.pad);
        at += length;
      }
      index[i + (packed ? 1 : 0)] =
          static_cast<std::int64_t>((packed ? at : bytes) / field.row_bytes);
      if (!go_on(bytes, poll)) return false;
    }
    if (packed) fill_rows(values + at, length - at, field.pad);
    return true;
  }

  bool go_on(std::size_t bytes, Poll* poll) {
    since_poll_ += bytes;
    if (!poll || since_poll_ < kPollBytes) return true;
    since_poll_ = 0;
    return poll->go_on();
  }

  const Payload& payload_;
  const RowsTable& table_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  const std::shared_ptr<BatchPool> pool_;
  HostDraw& fixed_;
  bool has_fixed_ = false;      // leaves of one size
  std::vector<Ragged> ragged_;  // that are copied
  TransformedRows transformed_;
  std::vector<std::vector<RowsSource>> sources_;  // of each field, in the batch's order
  std::vector<std::byte*> leaves_;
  std::size_t since_poll_ = 0;  // bytes
};

}  // namespace echobuf
