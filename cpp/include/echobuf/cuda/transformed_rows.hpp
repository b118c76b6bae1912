// The leaves of a batch that stages make of records that differ in length, on the
// device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/stage_launches.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/transform/stage_examples.hpp"

namespace echobuf::cuda {

/// The rows of one field of a record, or some of them.
struct RecordRows {
  Address address;
  std::uint64_t count;
};

/// The host lists the examples of a leaf in the table of the draw; then the stages make
/// windows and leaves of one size as a whole, and leaves of any number of rows in
/// pieces. Windows that need padding are first copied to scratch memory, which all
/// leaves use one after another.
class DeviceTransformedRows {
 public:
  struct Example {
    RecordRows rows;
    Address target;
    std::uint64_t draw;     // of the epoch
    std::uint64_t row = 0;  // its number in the whole batch that is drawn
    DrawnUse use = {};      // of its record, where draws know it
  };

  /// `records`: of a batch at most. Copies the settings of all stages to the device,
  /// and waits for that.
  DeviceTransformedRows(const SharedContext& context, const BatchLayout& batch,
                        const BufferOptions& options, std::uint64_t records,
                        const std::vector<StageKernels>& kernels)
      : context_(context), leaf_of_(batch.leaves(), kNone) {
    const Sizes sizes(batch, options, records);
    if (sizes.bytes() == 0) return;
    memory_ = make_device_memory(context, sizes.bytes());
    bytes_ = sizes.bytes();
    scratch_ = memory_->get() + round_up(sizes.settings, kScratchAlignment);
    ones_ = scratch_ + round_up(sizes.scratch, kScratchAlignment);
    std::vector<transform::Stage> settings;
    std::size_t next = 0;
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      const LeafPlan* const plan = plan_of(batch.all()[i]);
      if (!plan) continue;
      leaf_of_[i] = leaves_.size();
      leaves_.push_back(
          {LeafSizes(batch.all()[i], options, records),
           LeafLaunches(stages_of(*plan),
                        memory_->get() + settings.size() * sizeof(transform::Stage),
                        kernels, next),
           pad_of(options, batch.all()[i])});
      const auto& stages = leaves_.back().launches.stages().stages();
      settings.insert(settings.end(), stages.begin(), stages.end());
    }
    upload_settings(context, settings, memory_->get());
    if (sizes.ones > 0) fill_ones(sizes.ones);
  }

  /// The memory that it takes on the device.
  static std::size_t bytes(const BatchLayout& batch, const BufferOptions& options,
                           std::uint64_t records) {
    return Sizes(batch, options, records).bytes();
  }
  std::size_t bytes() const { return bytes_; }

  /// Words of a table for all examples of a batch, at most.
  static std::size_t table_words(const BufferOptions& options, std::uint64_t records) {
    constexpr std::size_t kWords = sizeof(transform::StageExample) / 8 + 2;
    std::size_t leaves = 0;
    for (const LeafOptions& leaf : options.leaves) leaves += leaf.plan || leaf.rows;
    return size_product(leaves, size_product(records + 2, kWords));
  }

  /// Returns whether stages make a leaf of the batch.
  bool makes(std::size_t leaf) const { return leaf_of_[leaf] != kNone; }

  /// The rows that a window takes of those of a record; of its mask ones.
  RecordRows window(const RowsPlan& plan, const transform::DrawNumber& number,
                    const RecordRows& of) const {
    if (plan.mask) return {ones_, std::min(of.count, plan.length)};
    if (of.count < plan.length) return of;
    const std::uint64_t first = plan.first_row(number, of.count - plan.length);
    return {of.address + first * plan.row_bytes, plan.length};
  }

  /// The padding of a window of a leaf; null: zeros.
  static const std::vector<std::byte>* pad_of(const BufferOptions& options,
                                              const BatchLayout::Leaf& leaf) {
    if (!leaf.rows || leaf.rows->mask) return nullptr;
    for (const RaggedField& field : options.lengths.fields)
      if (field.field == leaf.field) return &field.pad;
    return nullptr;
  }

  /// Enters the examples of a leaf in the table of the draw that begins.
  void list(std::size_t leaf, const std::vector<Example>& examples, DrawTable& table) {
    Leaf& made = leaves_[leaf_of_[leaf]];
    const LeafSizes& sizes = made.sizes;
    const std::size_t count = examples.size();
    std::uint64_t* word = table.add(count * sizeof(transform::StageExample) / 8);
    made.table = table.address(word);
    made.count = static_cast<std::uint32_t>(count);
    made.pieces = 0;
    made.padded.assign(1, 0);
    std::uint64_t* const sources = table.add(sizes.window > 0 ? count : 0);
    std::uint64_t* const lengths = table.add(sizes.window > 0 ? count : 0);
    made.sources = table.address(sources);
    made.lengths = table.address(lengths);
    std::size_t padded = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Example& example = examples[i];
      if (i > 0 && i % sizes.most == 0) made.padded.push_back(padded);
      Address source = example.rows.address;
      if (example.rows.count < sizes.length) {
        sources[padded] = source;
        lengths[padded] = example.rows.count;
        source = scratch_ + (padded - made.padded.back()) * sizes.window;
        ++padded;
      }
      *word++ = source;
      *word++ = example.target;
      *word++ = example.draw;
      *word++ = made.pieces | example.row << 32;  // two words of 32 bits
      *word++ = example.rows.count;
      *word++ = example.use.record;
      *word++ = example.use.echo;
      made.pieces +=
          sizes.piece == 0 ? 1 : (example.rows.count + sizes.piece - 1) / sizes.piece;
    }
    made.padded.push_back(padded);
  }

  /// Enqueues what makes all that was listed, behind the copy of the table. `key`: of
  /// the epoch.
  void enqueue(const Philox4x32Key& key, const RowsLaunch& rows, StreamHandle stream) {
    DrawParts parts;
    parts.count = 1;  // for the kernel: there is something to draw
    parts.batch.key = key;
    for (Leaf& made : leaves_) {
      const LeafSizes& sizes = made.sizes;
      transform::StageLaunch launch;
      launch.examples = {made.table, sizes.source_row, sizes.target_row,
                         made.count, sizes.piece,      sizes.row_elements};
      for (std::uint64_t done = 0; done < made.pieces; done += sizes.most) {
        if (sizes.window > 0) pad(made, done / sizes.most, rows, stream);
        launch.row = static_cast<std::uint32_t>(done);
        launch.count =
            static_cast<std::uint32_t>(std::min(sizes.most, made.pieces - done));
        made.launches.enqueue(context_->driver(), launch, parts,
                              scratch_ + sizes.padded_bytes(), {0, 0}, stream);
      }
      made.pieces = 0;
    }
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  // That have scratch memory: more of them would not make a device busier.
  static constexpr std::uint64_t kMostPieces = 4096;
  static constexpr std::uint64_t kMostAtOnce = std::uint64_t{1} << 20;

  static const LeafPlan* plan_of(const BatchLayout::Leaf& leaf) {
    if (leaf.plan) return leaf.plan;
    return leaf.rows && !leaf.rows->pieces.empty()
               ? leaf.rows->pieces.front().plan.get()
               : nullptr;
  }

  /// The numbers of a leaf that stages make.
  struct LeafSizes {
    std::size_t window = 0;    // bytes of one before it is changed; 0: it is none
    std::uint64_t length = 0;  // rows of a window
    std::size_t source_row = 0;
    std::size_t target_row = 0;
    std::uint32_t piece = 0;  // rows of a piece; 0: examples are whole
    std::uint32_t row_elements = 0;
    std::uint64_t most = 0;  // examples, or pieces, that are made at once
    std::size_t settings = 0;
    std::size_t scratch = 0;

    LeafSizes(const BatchLayout::Leaf& leaf, const BufferOptions& options,
              std::uint64_t records) {
      const LeafStages stages = stages_of(*plan_of(leaf));
      std::uint64_t all = std::min(records, kMostPieces);
      if (leaf.rows && leaf.rows->windowed()) {
        length = leaf.rows->length;
        source_row = leaf.rows->window_row();
        window = size_product(length, source_row);
      } else if (leaf.rows) {
        const RowsPlan& plan = *leaf.rows;
        piece = static_cast<std::uint32_t>(plan.pieces.front().rows);
        source_row = plan.row_bytes;
        target_row = plan.bytes;
        row_elements = plan.row_elements;
        all = pieces_of(leaf, options, records);
      }
      settings = stages.settings_bytes();
      const std::size_t each = stages.scratch_bytes() + window;
      most = each == 0 ? kMostAtOnce
                       : std::clamp<std::uint64_t>(kScratchBytes / each, 1,
                                                   std::max<std::uint64_t>(all, 1));
      scratch = padded_bytes() + size_product(most, stages.scratch_bytes());
    }

    /// Of copies of windows.
    std::size_t padded_bytes() const {
      return round_up(size_product(most, window), kScratchAlignment);
    }

   private:
    /// Pieces of a batch, or as many as have scratch memory.
    std::uint64_t pieces_of(const BatchLayout::Leaf& leaf, const BufferOptions& options,
                            std::uint64_t records) const {
      for (const RaggedField& field : options.lengths.fields)
        if (field.field == leaf.field && field.max_length > 0 &&
            field.max_length < kMostPieces * piece)
          return std::min(kMostPieces,
                          size_product(records, (field.max_length - 1) / piece + 1));
      return kMostPieces;
    }
  };

  struct Sizes {
    std::size_t settings = 0;
    std::size_t scratch = 0;
    std::size_t ones = 0;

    Sizes(const BatchLayout& batch, const BufferOptions& options,
          std::uint64_t records) {
      for (const BatchLayout::Leaf& leaf : batch.all()) {
        if (leaf.rows && leaf.rows->mask)
          ones = std::max<std::size_t>(ones, leaf.rows->length);
        if (!plan_of(leaf)) continue;
        const LeafSizes sizes(leaf, options, records);
        settings += sizes.settings;
        scratch = std::max(scratch, sizes.scratch);
      }
    }
    std::size_t bytes() const {
      return round_up(settings, kScratchAlignment) +
             round_up(scratch, kScratchAlignment) + round_up(ones, kScratchAlignment);
    }
  };

  struct Leaf {
    LeafSizes sizes;
    LeafLaunches launches;
    const std::vector<std::byte>* pad;  // of windows; null: zeros
    // Of the draw that was listed:
    Address table = 0;
    std::uint32_t count = 0;   // examples
    std::uint64_t pieces = 0;  // 0: there are none
    Address sources = 0;       // of the windows that are padded
    Address lengths = 0;
    std::vector<std::size_t> padded = {};  // the first of them in each launch
  };

  void fill_ones(std::size_t count) const {
    const std::vector<std::byte> ones(count, std::byte{1});
    const DeviceContext::RelaxedScope scope(*context_);
    const auto stream = make_stream(context_);
    context_->driver().copy_to_device(ones_, static_cast<const void*>(ones.data()),
                                      count, stream->get());
    context_->driver().stream_synchronize(stream->get());
  }

  /// Copies the windows of launch `number` that need padding, and pads them.
  void pad(const Leaf& made, std::size_t number, const RowsLaunch& rows,
           StreamHandle stream) const {
    const std::size_t first = made.padded[number];
    const std::size_t count = made.padded[number + 1] - first;
    if (count == 0) return;
    RowsLeaf leaf = rows_leaf_at(scratch_, count * made.sizes.window);
    leaf.sources = made.sources + first * sizeof(std::uint64_t);
    leaf.lengths = made.lengths + first * sizeof(std::uint64_t);
    leaf.each = made.sizes.window;
    leaf.row = made.sizes.source_row;
    if (made.pad) leaf.pad = rows_padding(*made.pad, leaf.base);
    leaf = of_records(leaf, count);
    rows.enqueue({&leaf, 1}, stream);
  }

  const SharedContext context_;
  std::unique_ptr<DeviceMemory> memory_;
  std::size_t bytes_ = 0;
  Address scratch_ = 0;
  Address ones_ = 0;
  std::vector<Leaf> leaves_;
  std::vector<std::size_t> leaf_of_;  // of each of the batch; or kNone
};

}  // namespace echobuf::cuda
