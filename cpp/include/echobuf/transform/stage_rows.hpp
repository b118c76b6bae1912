// Rows of a stage's result, before it is mixed with a partner: pixels moved, numbers
// changed. `pull.hpp` does the same pixel by pixel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "echobuf/transform/blur_rows.hpp"
#include "echobuf/transform/color_rows.hpp"
#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/pixel_rows.hpp"
#include "echobuf/transform/pull.hpp"
#include "echobuf/transform/resample_rows.hpp"
#include "echobuf/transform/round_rows.hpp"
#include "echobuf/transform/sharpen_rows.hpp"
#include "echobuf/transform/source_rows.hpp"
#include "echobuf/transform/tone_rows.hpp"
#include "echobuf/transform/warp_rows.hpp"

namespace echobuf::transform {

class StageRows {
 public:
  /// Throws std::bad_alloc; nothing is allocated later.
  explicit StageRows(const Stage& stage)
      : stage_(stage),
        draws_(kMostOps),
        index_(static_cast<std::size_t>(widest(stage))),
        read_(widest(stage), channels(stage)),
        spare_(widest(stage), channels(stage)),
        warp_(WarpRows::of(stage)) {
    runs_.reserve(index_.size());
    if (ByteTones::fits(stage)) tones_.emplace(stage);
    if (statistic_of(stage) == Statistic::kHistogram)
      table_.resize(kBins * static_cast<std::size_t>(channels(stage)));
    if (is_bytes(stage.source)) {
      bytes_ = ByteRows(widest(stage), channels(stage));
      spare_bytes_ = ByteRows(widest(stage), channels(stage));
    }
    if (stage.core == Core::kBlur) blur_.emplace(stage);
    if (stage.core == Core::kSharpen) sharpen_.emplace(stage);
    if (stage.core == Core::kResample) resample_.emplace(stage);
  }

  const std::byte* source() const { return source_; }
  HostOps ops() { return {stage_, draws_.data()}; }

  /// Asks chance, and looks at the image that the rows are made from.
  void begin(const DrawNumber& number, bool partner, const std::byte* source) {
    source_ = source;
    ops().draw(number, partner);
    if (stage_.raw != 0 || tones_) return;
    if (stage_.core == Core::kWarp || stage_.core == Core::kPerspective)
      return begin_warp();
    if (stage_.core == Core::kResample || stage_.core == Core::kBlur ||
        stage_.core == Core::kSharpen)
      begin_neighbours();
    else if (stage_.core == Core::kNone)
      find_columns(0, stage_.after, 0, stage_.target.extent.width);
    find_statistic();
  }

  /// True if the image is made in one go, by `make_tones`.
  bool is_tones() const { return tones_.has_value(); }
  void make_tones(std::byte* target) { tones_->make(draws_.data(), source_, target); }

  /// True if a row, with its pixels moved, is one of bytes, which one operation at most
  /// then changes.
  bool is_bytes_then_one() const {
    return stage_.core == Core::kNone && is_bytes(stage_.source) && stage_.mix < 0 &&
           stage_.statistic < 0 &&
           (stage_.count == stage_.after ||
            (stage_.count == stage_.after + 1 &&
             (stage_.ops[stage_.after].code == OpCode::kNormalize ||
              stage_.ops[stage_.after].code == OpCode::kScale)));
  }
  /// True if such a row is one of bytes that become grey ones.
  bool is_bytes_then_grey() const {
    return stage_.core == Core::kNone && stage_.mix < 0 &&
           stage_.source.type == NumberType::kUint8 &&
           stage_.target.type == NumberType::kUint8 &&
           stage_.count == stage_.after + 1 &&
           stage_.ops[stage_.after].code == OpCode::kGrey;
  }
  /// That row, before the operation.
  unsigned char* const* byte_row(int32_t y) {
    read_row(unmap(ops(), 0, stage_.after, Axis::kRow, y), bytes_.rows(),
             stage_.target.extent.width);
    return bytes_.rows();
  }

  /// Row `y`, changed by the operations up to `end`.
  void row(int32_t y, int32_t end, float* const* rows) {
    moved(y, rows);
    change(stage_.after, end, y, rows);
  }

  void change(int32_t begin, int32_t end, int32_t y, float* const* rows) {
    const Place first{y, 0, stage_.target.extent};
    for (int32_t k = begin; k < end; ++k)
      ops().visit(k, [&](const auto& op, const auto& draw) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, Custom>)
          op.table->row(op.settings, draw, rows, first);
        else if constexpr (std::is_same_v<Op, Grey>)
          grey_row(op, draw, rows, first.extent.width);
        else if constexpr (requires { op.as_jitter(); })
          change_row(op.as_jitter(), draw, rows, first);
        else if constexpr (ElementOp<Op> || PixelOp<Op>)
          change_row(op, draw, rows, first);
      });
  }

 private:
  static int32_t channels(const Stage& stage) {
    return std::max(stage.source.extent.channels, stage.target.extent.channels);
  }
  /// Columns that a row has anywhere in the stage.
  static int32_t widest(const Stage& stage) {
    int32_t width = std::max(stage.source.extent.width, stage.target.extent.width);
    if (stage.core == Core::kResample)
      width = std::max(width, stage.ops[stage.before].as<Resample>().in.width);
    if (stage.core == Core::kBlur)
      width = std::max(width, stage.ops[stage.before].as<Blur>().in.width);
    if (stage.core == Core::kSharpen)
      width = std::max(width, stage.ops[stage.before].as<Sharpen>().in.width);
    return std::max(width, WarpRows::width(stage));
  }

  /// The fill of a channel; 0 if no map has one, so that nothing lies outside.
  float fill(int32_t channel) {
    return stage_.fill < 0 ? 0.0f : static_cast<float>(fill_of(ops(), channel));
  }

  /// Where the columns `first` ... of what the maps [begin, end) make come from.
  void find_columns(int32_t begin, int32_t end, int32_t first, int32_t count) {
    unmap_all(ops(), begin, end, Axis::kColumn, first, count, index_.data());
    find_runs(index_.data(), count, runs_);
  }

  void read_row(int32_t source_row, float* const* rows, int32_t count) {
    if (source_row == kOutside) return fill_row(rows, count);
    if (!is_bytes(stage_.source)) ask_for_more(source_row, count);
    if (is_bytes(stage_.source)) {
      read_row(source_row, bytes_.rows(), count);
      for (int32_t c = 0; c < stage_.source.extent.channels; ++c)
        read_numbers<uint8_t>(reinterpret_cast<const std::byte*>(bytes_[c]), count,
                              rows[c]);
      return;
    }
    read_runs(stage_.source, source_ + stage_.source.offset(source_row, 0, 0), runs_,
              rows, spare_.rows(), read_floats, [this](int32_t c) { return fill(c); });
  }
  void read_row(int32_t source_row, unsigned char* const* rows, int32_t count) {
    if (source_row == kOutside) {
      for (int32_t c = 0; c < stage_.source.extent.channels; ++c)
        std::fill_n(rows[c], count, static_cast<unsigned char>(fill(c)));
      return;
    }
    ask_for_more(source_row, count);
    read_runs(stage_.source, source_ + stage_.source.offset(source_row, 0, 0), runs_,
              rows, spare_bytes_.rows(), read_bytes,
              [this](int32_t c) { return fill(c); });
  }

  void ask_for_more(int32_t row, int32_t count) const {
    const Layout& layout = stage_.source;
    const auto bytes = static_cast<std::size_t>(std::min(count, layout.extent.width)) *
                       static_cast<std::size_t>(layout.column) * layout.bytes;
    for (int32_t c = 0; c < (layout.column == 1 ? layout.extent.channels : 1); ++c)
      ask_for(source_ + layout.offset(row, 0, c), bytes);
  }

  void fill_row(float* const* rows, int32_t count) {
    for (int32_t c = 0; c < stage_.source.extent.channels; ++c)
      std::fill_n(rows[c], count, fill(c));
  }

  // ---- pixels moved

  void moved(int32_t y, float* const* rows) {
    switch (stage_.core) {
      case Core::kNone:
        return read_row(unmap(ops(), 0, stage_.after, Axis::kRow, y), rows,
                        stage_.target.extent.width);
      case Core::kResample:
        return neighbours(*resample_, y, rows);
      case Core::kBlur:
        return neighbours(*blur_, y, rows);
      case Core::kSharpen:
        return neighbours(*sharpen_, y, rows);
      default:
        return warp_ ? warp(y, rows) : pulled(y, rows);
    }
  }

  /// Neighbours have nothing in common here: pixel by pixel.
  void pulled(int32_t y, float* const* rows) {
    const HostOps ops = this->ops();
    const Puller<HostOps> puller(ops, reinterpret_cast<std::uint64_t>(source_));
    float v[kMostChannels];
    for (int32_t x = 0; x < stage_.target.extent.width; ++x) {
      puller.moved(y, x, v);
      for (int32_t c = 0; c < stage_.source.extent.channels; ++c) rows[c][x] = v[c];
    }
  }

  // ---- cores of neighbours: resampling, blur and sharpness

  void begin_neighbours() {
    const DrawBlock& draw = draws_[static_cast<std::size_t>(stage_.before)];
    if (resample_) {
      const Stretch columns = resample_->begin(ops(), draw.as<Resample::Draw>());
      columns_ = columns.size;
      return find_columns(0, stage_.before, columns.begin, columns_);
    }
    if (blur_) blur_->begin(ops(), draw.as<Blur::Draw>());
    if (sharpen_) sharpen_->begin(ops(), draw.as<Sharpen::Draw>());
    columns_ = stage_.core == Core::kBlur
                   ? stage_.ops[stage_.before].as<Blur>().in.width
                   : stage_.ops[stage_.before].as<Sharpen>().in.width;
    find_columns(0, stage_.before, 0, columns_);
  }

  template <class CoreRows>
  void neighbours(CoreRows& core, int32_t y, float* const* rows) {
    const int32_t from =
        unmap(ops(), stage_.first_after(), stage_.after, Axis::kRow, y);
    if (from == kOutside) return fill_row(rows, stage_.target.extent.width);
    core.row(
        from, rows,
        [this](int32_t row, float* const* to) {
          read_row(unmap(ops(), 0, stage_.before, Axis::kRow, row), to, columns_);
        },
        [this](int32_t c) { return fill(c); });
  }

  // ---- warps

  void begin_warp() {
    if (!warp_) return;
    const int32_t width = WarpRows::width(stage_);
    find_columns(0, stage_.before, 0, width);
    warp_->begin(ops(), [&](int32_t y, auto* const* rows) {
      read_row(unmap(ops(), 0, stage_.before, Axis::kRow, y), rows, width);
    });
  }
  void warp(int32_t y, float* const* rows) {
    const int32_t width = stage_.target.extent.width;
    const int32_t from =
        unmap(ops(), stage_.first_after(), stage_.after, Axis::kRow, y);
    if (from == kOutside) return fill_row(rows, width);
    warp_->row(ops(), from, rows);
    if (warp_->has_outside()) fill_outside(rows, width);
  }

  void fill_outside(float* const* rows, int32_t width) {
    for (int32_t x = 0; x < width; ++x)
      if (unmap(ops(), stage_.first_after(), stage_.after, Axis::kColumn, x) ==
          kOutside)
        for (int32_t c = 0; c < stage_.source.extent.channels; ++c)
          rows[c][x] = fill(c);
  }

  // ---- statistics of the image

  void find_statistic() {
    switch (statistic_of(stage_)) {
      case Statistic::kMean:
        return find_mean();
      case Statistic::kRange:
        return find_ranges();
      case Statistic::kHistogram:
        return find_table();
      case Statistic::kNone:
        return;
    }
  }

  /// The jitter whose contrast is about the mean.
  Jitter contrasting() const {
    const OpBlock& block = stage_.ops[stage_.statistic];
    if (block.code == OpCode::kGradedColor) return block.as<GradedColor>().as_jitter();
    return block.as<Jitter>();
  }
  void find_mean() {
    const Jitter jitter = contrasting();
    const auto& draw = ops().drawn<Jitter::Draw>(stage_.statistic);
    std::int64_t sum = 0;
    const Extent& extent = stage_.target.extent;
    for (int32_t y = 0; y < extent.height; ++y) {
      moved(y, mean_rows());
      sum += sum_grey(jitter, draw, mean_rows(), Place{y, 0, extent});
    }
    ops().set_mean(stage_.statistic, GreySum::mean(sum, extent.pixels()));
  }
  float* const* mean_rows() const { return read_.rows(); }

  void find_ranges() {
    const auto& op = stage_.ops[stage_.statistic].as<AutoContrast>();
    auto& draw = ops().drawn<AutoContrast::Draw>(stage_.statistic);
    if (!AutoContrast::looks(draw)) return;
    const Extent& extent = stage_.target.extent;
    Range ranges[AutoContrast::kChannels];
    for (Range& range : ranges) range = Range::none();
    for (int32_t y = 0; y < extent.height; ++y) {
      moved(y, mean_rows());
      for (int32_t c = 0; c < extent.channels; ++c)
        ranges[c].add(range_of(mean_rows()[c], extent.width));
    }
    for (int32_t c = 0; c < extent.channels; ++c) op.set(draw, c, ranges[c]);
  }

  void find_table() {
    const auto& op = stage_.ops[stage_.statistic].as<Equalize>();
    auto& draw = ops().drawn<Equalize::Draw>(stage_.statistic);
    if (!Equalize::looks(draw)) return;
    const Extent& extent = stage_.target.extent;
    std::array<Counts, kMostChannels> counts{};
    for (int32_t y = 0; y < extent.height; ++y) {
      moved(y, mean_rows());
      for (int32_t c = 0; c < extent.channels; ++c)
        for (int32_t x = 0; x < extent.width; ++x)
          ++counts[static_cast<std::size_t>(c)][op.byte_of(mean_rows()[c][x])];
    }
    for (int32_t c = 0; c < extent.channels; ++c)
      make_table(counts[static_cast<std::size_t>(c)], extent.pixels(),
                 table_.data() + kBins * static_cast<std::size_t>(c));
    draw.table = table_.data();
  }

  const Stage& stage_;
  std::vector<DrawBlock> draws_;
  const std::byte* source_ = nullptr;

  std::vector<int32_t> index_;
  std::vector<Run> runs_;
  RowBlock read_;
  RowBlock spare_;
  ByteRows bytes_;
  ByteRows spare_bytes_;
  std::optional<ByteTones> tones_;
  std::vector<unsigned char> table_;  // of Equalize
  std::optional<WarpRows> warp_;

  int32_t columns_ = 0;
  std::optional<ResampleRows> resample_;
  std::optional<BlurRows> blur_;
  std::optional<SharpenRows> sharpen_;
};

}  // namespace echobuf::transform
