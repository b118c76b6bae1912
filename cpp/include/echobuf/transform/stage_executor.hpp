// Carries out a program on the host, example by example.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "echobuf/store/copy.hpp"
#include "echobuf/transform/byte_numbers.hpp"
#include "echobuf/transform/erase_rows.hpp"
#include "echobuf/transform/image_sink.hpp"
#include "echobuf/transform/program.hpp"
#include "echobuf/transform/raw_rows.hpp"
#include "echobuf/transform/stage_rows.hpp"

namespace echobuf::transform {

class StageExecutor {
 public:
  /// `program` must outlive it. Throws std::bad_alloc; nothing is allocated later.
  /// `large`: how large rows are written, if not like others.
  StageExecutor(const Program& program, RowCopy large) {
    for (const ImageBuffer& buffer : program.buffers(false))
      images_.emplace_back(buffer);
    stages_.reserve(program.stages.size());
    for (const Stage& stage : program.stages) stages_.emplace_back(stage, large);
    while (whole_ < stages_.size() && stages_[whole_].stage.frames == 1) ++whole_;
    for (std::size_t i = whole_; i < stages_.size(); ++i)
      stages_[i].from_whole = reads_whole(stages_[i].stage);
  }

  /// About what one takes: the images between the stages, and rows.
  static std::size_t bytes(const Program& program) {
    constexpr std::size_t kBuffers = 8;
    std::size_t bytes = 0;
    for (const ImageBuffer& buffer : program.buffers(false))
      bytes += buffer.all_bytes();
    for (const Stage& stage : program.stages)
      bytes +=
          kBuffers * sizeof(float) *
              static_cast<std::size_t>(Work::width(stage) * Work::channels(stage)) +
          WarpRows::bytes(stage);
    return bytes;
  }

  /// Makes the leaf of one example at `target`.
  void execute(const DrawNumber& number, const std::byte* record,
               const std::byte* partner, std::byte* target) {
    for (std::size_t i = 0; i < whole_; ++i)
      execute(stages_[i], 0, number, record, partner, target);
    if (whole_ == stages_.size()) return;
    // A frame goes through all stages before the next one: it stays in the caches.
    const std::int32_t frames = stages_[whole_].stage.frames;
    for (std::int32_t frame = 0; frame < frames; ++frame)
      for (std::size_t i = whole_; i < stages_.size(); ++i)
        execute(stages_[i], frame, number, record, partner, target);
  }

 private:
  struct Work {
    Work(const Stage& of, RowCopy large)
        : stage(of),
          own(stage),
          rows(width(stage), channels(stage)),
          sink(stage.target, stage.to == kLeaf ? large : nullptr),
          line(line_bytes(stage) * static_cast<std::size_t>(channels(stage))) {
      if (stage.raw != 0) raw.emplace(stage);
      if (EraseRows::fits(stage)) erased.emplace(stage);
      if (ByteNumbers::fits(stage)) tabulate();
      if (stage.mix < 0 && stage.doubled == 0) return;
      others.emplace(stage);
      partner_rows = RowBlock(width(stage), channels(stage));
    }
    static int32_t width(const Stage& stage) {
      return std::max(stage.source.extent.width, stage.target.extent.width);
    }
    static int32_t channels(const Stage& stage) {
      return std::max(stage.source.extent.channels, stage.target.extent.channels);
    }

    /// Finds what each byte becomes.
    void tabulate() {
      const Extent& extent = stage.target.extent;
      const auto changed = [&](float v, int32_t c) {
        for (int32_t i = stage.after; i < stage.count; ++i)
          own.ops().visit(i, [&](const auto& op, const auto& draw) {
            if constexpr (requires { op.element(draw, v, c, Place{}); })
              v = op.element(draw, v, c, Place{0, 0, extent});
          });
        return v;
      };
      numbers.emplace(stage.target.type, extent.channels, changed);
    }

    /// Of a channel's row as it will lie in memory.
    static std::size_t line_bytes(const Stage& stage) {
      return static_cast<std::size_t>(width(stage)) * stage.target.bytes;
    }

    const Stage& stage;
    bool from_whole = false;  // all frames lie where it reads
    StageRows own;
    std::optional<StageRows> others;
    RowBlock rows;
    RowBlock partner_rows;
    ImageSink sink;
    std::optional<RawRows> raw;
    std::optional<EraseRows> erased;
    std::optional<ByteNumbers> numbers;  // that bytes become
    std::vector<std::byte> line;  // a row of each channel, before they are merged
  };

  /// An image between stages.
  struct Image {
    explicit Image(const ImageBuffer& buffer)
        : own(buffer.bytes), partner(buffer.doubled ? buffer.bytes : 0) {}

    std::vector<std::byte> own;
    std::vector<std::byte> partner;
  };

  /// True if all frames lie where a stage with frames reads: in the record, or in what
  /// a stage without frames has written. Other images between stages have room for one.
  bool reads_whole(const Stage& stage) const {
    if (stage.from == kRecord) return true;
    for (std::size_t i = whole_; i < stages_.size(); ++i)
      if (stages_[i].stage.to == stage.from) return false;
    return true;
  }

  /// Carries out a stage on a frame, or on all of an example that has none.
  void execute(Work& work, std::int32_t frame, DrawNumber number,
               const std::byte* record, const std::byte* partner, std::byte* target) {
    const Stage& stage = work.stage;
    number.first_element += stage.first_element(static_cast<std::uint32_t>(frame));
    const std::int64_t before = work.from_whole ? frame * stage.source.size() : 0;
    const auto source = [&](const std::byte* example, bool of_partner) {
      if (stage.from == kRecord) return example + before;
      return static_cast<const std::byte*>(image(stage.from, of_partner)) + before;
    };
    if (stage.gates.open(number, false)) {
      work.own.begin(number, false, source(record, false));
      if (stage.mix >= 0) work.others->begin(number, true, source(partner, true));
      if (stage.to == kLeaf)
        execute(work, target + frame * stage.target.size());
      else
        execute(work, image(stage.to, false));
    }
    if (stage.doubled != 0 && stage.gates.open(number, true)) {
      work.others->begin(number, true, source(partner, true));
      execute_partner(work, image(stage.to, true));
    }
  }

  std::byte* image(int32_t buffer, bool partner) {
    Image& image = images_[static_cast<std::size_t>(buffer)];
    return (partner ? image.partner : image.own).data();
  }

  void execute(Work& work, std::byte* target) {
    const Stage& stage = work.stage;
    if (work.raw)
      return work.raw->move(work.own.ops(), work.own.source(), target, work.sink);
    if (work.erased)
      return work.erased->make(work.own.ops(), work.own.source(), target, work.sink);
    if (work.own.is_tones()) return work.own.make_tones(target);
    if (work.own.is_bytes_then_grey()) return paint_grey(work, target);
    work.sink.begin(target);
    const bool painted = work.own.is_bytes_then_one();
    const bool there = is_rows(stage.target) &&
                       stage.source.extent.channels <= stage.target.extent.channels &&
                       reinterpret_cast<std::uintptr_t>(target) % alignof(float) == 0;
    const auto bytes =
        static_cast<std::size_t>(stage.target.extent.width) * sizeof(float);
    for (int32_t y = 0; y < stage.target.extent.height; ++y) {
      if (work.numbers) {
        look_up_bytes(work, y);
      } else if (painted) {
        paint_bytes(work, y);
      } else if (there) {
        std::byte* const* const room = work.sink.room();
        float* lines[kMostChannels];
        for (int32_t c = 0; c < stage.target.extent.channels; ++c)
          lines[c] = reinterpret_cast<float*>(room[c]);
        make_row(work, y, lines);
        work.sink.wrote(bytes);
      } else {
        make_row(work, y, work.rows.rows());
        write(work, work.rows.rows());
      }
    }
    work.sink.end();
  }

  /// Makes row `y` of all channels as floats, mixed with the partner's where the stage
  /// mixes.
  static void make_row(Work& work, int32_t y, float* const* rows) {
    const Stage& stage = work.stage;
    if (stage.mix < 0) return work.own.row(y, stage.count, rows);
    work.own.row(y, stage.mix, rows);
    work.others->row(y, stage.mix, work.partner_rows.rows());
    mix(work, y, rows);
    work.own.change(stage.mix + 1, stage.count, y, rows);
  }

  void execute_partner(Work& work, std::byte* target) {
    if (work.raw)
      return work.raw->move(work.others->ops(), work.others->source(), target,
                            work.sink);
    if (work.others->is_tones()) return work.others->make_tones(target);
    work.sink.begin(target);
    for (int32_t y = 0; y < work.stage.target.extent.height; ++y) {
      work.others->row(y, work.stage.count, work.partner_rows.rows());
      write(work, work.partner_rows.rows());
    }
    work.sink.end();
  }

  /// True if rows of an image are rows of floats, a channel each.
  static bool is_rows(const Layout& layout) {
    return layout.type == NumberType::kFloat32 &&
           (is_planar(layout) || layout.extent.channels == 1);
  }

  /// Bytes become floats and are changed in one go, where they are to lie if floats are
  /// what is written.
  void paint_bytes(Work& work, int32_t y) {
    const Stage& stage = work.stage;
    const Extent& extent = stage.target.extent;
    const bool there = is_rows(stage.target);
    const std::size_t bytes = static_cast<std::size_t>(extent.width) * sizeof(float);
    std::byte* lines[kMostChannels];
    for (int32_t c = 0; c < extent.channels; ++c)
      lines[c] = reinterpret_cast<std::byte*>(work.rows[c]);
    std::byte* const* const to = there ? work.sink.room() : lines;
    unsigned char* const* const rows = work.own.byte_row(y);
    const Place first{y, 0, extent};
    if (stage.count == stage.after)
      convert(Same{}, Same::Draw{}, rows, first, to);
    else
      work.own.ops().visit(stage.after, [&](const auto& op, const auto& draw) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, Normalize> || std::is_same_v<Op, Scale>)
          convert(op, draw, rows, first, to);
      });
    if (there)
      work.sink.wrote(bytes);
    else
      write(work, work.rows.rows());
  }

  /// Bytes become numbers by a table.
  void look_up_bytes(Work& work, int32_t y) {
    const Layout& layout = work.stage.target;
    const Extent& extent = layout.extent;
    const std::size_t bytes = static_cast<std::size_t>(extent.width) * layout.bytes;
    const bool there = is_planar(layout) || extent.channels == 1;
    unsigned char* const* const rows = work.own.byte_row(y);
    std::byte* lines[kMostChannels];
    const std::byte* planes[kMostChannels];
    for (int32_t c = 0; c < extent.channels; ++c)
      planes[c] = lines[c] = work.line.data() + static_cast<std::size_t>(c) * bytes;
    std::byte* const* const to = there ? work.sink.room() : lines;
    for (int32_t c = 0; c < extent.channels; ++c)
      work.numbers->convert(c, rows[c], extent.width, to[c]);
    if (there) return work.sink.wrote(bytes);
    RowSink& sink = work.sink.plane(0);
    merge_pixels(extent.channels, layout.bytes, planes, extent.width, sink.room());
    sink.wrote(bytes * static_cast<std::size_t>(extent.channels));
  }

  /// Bytes become grey ones.
  static void paint_grey(Work& work, std::byte* target) {
    const Layout& layout = work.stage.target;
    const int32_t width = layout.extent.width;
    const auto& op = work.stage.ops[work.stage.after].as<Grey>();
    const auto& draw = work.own.ops().drawn<Grey::Draw>(work.stage.after);
    const bool stays = draw.on == 0 && op.from == op.to;
    auto* const line = reinterpret_cast<unsigned char*>(work.line.data());
    for (int32_t y = 0; y < layout.extent.height; ++y) {
      unsigned char* const* const rows = work.own.byte_row(y);
      if (!stays) grey_bytes(op, rows, width, line);
      if (!stays && layout.column == 3 && layout.channel == 1) {
        spread(line, width, target + layout.offset(y, 0, 0));
        continue;
      }
      for (int32_t c = 0; c < layout.extent.channels; ++c) {
        const unsigned char* const __restrict__ from = stays ? rows[c] : line;
        auto* const __restrict__ to =
            reinterpret_cast<unsigned char*>(target + layout.offset(y, 0, c));
        if (layout.column == 1)
          std::memcpy(to, from, static_cast<std::size_t>(width));
        else
          for (int32_t x = 0; x < width; ++x) to[x * layout.column] = from[x];
      }
    }
  }

  /// Writes each byte three times.
  static void spread(const unsigned char* from, int32_t count, std::byte* target) {
    work_fast([from, count, line = reinterpret_cast<unsigned char*>(target)] {
      unsigned char* const __restrict__ to = line;
      for (int32_t x = 0; x < count; ++x)
        to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = from[x];
    });
  }

  struct Same {
    struct Draw {};
    float element(const Draw&, float v, int, const Place&) const { return v; }
  };

  template <class Op>
  static void convert(const Op& settings, const typename Op::Draw& draw,
                      unsigned char* const* rows, const Place& place,
                      std::byte* const* to) {
    for (int32_t c = 0; c < place.extent.channels; ++c) {
      std::byte* const __restrict__ line = to[c];
      const unsigned char* const __restrict__ row = rows[c];
      work_fast([op = settings, d = draw, at = place, line, row, c] {
        for (int32_t x = 0; x < at.extent.width; ++x) {
          const float value = op.element(d, row[x], c, at);
          std::memcpy(line + static_cast<std::size_t>(x) * sizeof(float), &value,
                      sizeof(float));
        }
      });
    }
  }

  static void mix(Work& work, int32_t y, float* const* rows) {
    const Place first{y, 0, work.stage.target.extent};
    work.own.ops().visit(work.stage.mix, [&](const auto& settings, const auto& draw) {
      using Op = std::decay_t<decltype(settings)>;
      if constexpr (std::is_same_v<Op, Mix>)
        for (int32_t c = 0; c < first.extent.channels; ++c)
          mix_row(settings, draw, rows[c], work.partner_rows[c], first);
    });
  }
  static void mix_row(const Mix& settings, const Mix::Draw& draw,
                      float* __restrict__ own, const float* __restrict__ other,
                      const Place& first) {
    work_fast([op = settings, d = draw, at = first, own, other]() mutable {
      for (int32_t x = 0; x < at.extent.width; ++x) {
        at.x = x;
        own[x] = op.element(d, own[x], other[x], at);
      }
    });
  }

  static void write(Work& work, float* const* rows) {
    const Layout& layout = work.stage.target;
    const int32_t width = layout.extent.width;
    const int32_t channels = layout.extent.channels;
    const std::size_t bytes = static_cast<std::size_t>(width) * layout.bytes;
    if (is_planar(layout) || channels == 1) {
      std::byte* const* const to = work.sink.room();
      for (int32_t c = 0; c < channels; ++c)
        write_row(layout.type, rows[c], width, to[c]);
      return work.sink.wrote(bytes);
    }
    const std::byte* planes[kMostChannels];
    for (int32_t c = 0; c < channels; ++c) {
      std::byte* const line = work.line.data() + static_cast<std::size_t>(c) * bytes;
      planes[c] = line;
      if (layout.type == NumberType::kFloat32)
        planes[c] = reinterpret_cast<const std::byte*>(rows[c]);
      else
        write_row(layout.type, rows[c], width, line);
    }
    const std::size_t pixels = bytes * static_cast<std::size_t>(channels);
    RowSink& sink = work.sink.plane(0);
    merge_pixels(channels, layout.bytes, planes, width, sink.room());
    sink.wrote(pixels);
  }
  static void write_row(NumberType type, const float* row, int32_t width,
                        std::byte* to) {
    with_type(type, [&](auto tag) {
      write_numbers<typename decltype(tag)::Type>(row, width, to);
    });
  }

  std::vector<Image> images_;
  std::vector<Work> stages_;
  std::size_t whole_ = 0;  // stages before the first one with frames
};

}  // namespace echobuf::transform
