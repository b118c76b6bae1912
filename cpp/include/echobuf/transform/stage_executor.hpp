// Carries out a program on the host, example by example.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "echobuf/draw/copy.hpp"
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
    const auto mix = program.mix_stage();
    stages_.reserve(program.stages.size());
    for (std::size_t i = 0; i < program.stages.size(); ++i)
      stages_.emplace_back(program, i, mix && i <= *mix, large);
  }

  /// About what one takes: the images between the stages, and rows.
  static std::size_t bytes(const Program& program) {
    constexpr std::size_t kBuffers = 8;
    std::size_t bytes = 2 * program.scratch_bytes();
    for (const Stage& stage : program.stages)
      bytes += kBuffers * sizeof(float) *
               static_cast<std::size_t>(Work::width(stage) * Work::channels(stage));
    return bytes;
  }

  /// Makes the leaf of one example at `target`.
  void execute(const DrawNumber& number, const std::byte* record,
               const std::byte* partner, std::byte* target) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Work& work = stages_[i];
      const bool last = i + 1 == stages_.size();
      work.own.begin(number, false, source(i, record, false));
      if (work.others) work.others->begin(number, true, source(i, partner, true));
      const bool both = work.others && work.stage.mix < 0;
      execute(work, last ? target : work.image.data());
      if (both) execute_partner(work);
    }
  }

 private:
  struct Work {
    Work(const Program& program, std::size_t i, bool with_partner, RowCopy large)
        : stage(program.stages[i]),
          own(stage),
          rows(width(stage), channels(stage)),
          sink(stage.target, i + 1 == program.stages.size() ? large : nullptr),
          line(line_bytes(stage) * static_cast<std::size_t>(channels(stage))) {
      if (stage.raw != 0) raw.emplace(stage);
      if (with_partner) {
        others.emplace(stage);
        partner_rows = RowBlock(width(stage), channels(stage));
      }
      if (i + 1 == program.stages.size()) return;
      image.resize(program.scratch_bytes_of(i));
      if (with_partner && stage.mix < 0) partner_image.resize(image.size());
    }
    static int32_t width(const Stage& stage) {
      return std::max(stage.source.extent.width, stage.target.extent.width);
    }
    static int32_t channels(const Stage& stage) {
      return std::max(stage.source.extent.channels, stage.target.extent.channels);
    }

    /// Of a channel's row as it will lie in memory.
    static std::size_t line_bytes(const Stage& stage) {
      return static_cast<std::size_t>(width(stage)) * stage.target.bytes;
    }

    const Stage& stage;
    StageRows own;
    std::optional<StageRows> others;
    RowBlock rows;
    RowBlock partner_rows;
    ImageSink sink;
    std::optional<RawRows> raw;
    std::vector<std::byte> line;  // a row of each channel, before they are merged
    std::vector<std::byte> image;
    std::vector<std::byte> partner_image;
  };

  const std::byte* source(std::size_t i, const std::byte* record, bool partner) const {
    if (i == 0) return record;
    const Work& before = stages_[i - 1];
    const bool apart = partner && !before.partner_image.empty();
    return (apart ? before.partner_image : before.image).data();
  }

  void execute(Work& work, std::byte* target) {
    const Stage& stage = work.stage;
    if (work.raw)
      return work.raw->move(work.own.ops(), work.own.source(), target, work.sink);
    work.sink.begin(target);
    const bool painted = work.own.is_bytes_then_one();
    const bool there = is_rows(stage.target) && stage.mix < 0 &&
                       reinterpret_cast<std::uintptr_t>(target) % alignof(float) == 0;
    for (int32_t y = 0; y < stage.target.extent.height; ++y) {
      if (painted) {
        paint_bytes(work, y);
        continue;
      }
      float* const* const rows = work.rows.rows();
      if (there) {
        const auto bytes =
            static_cast<std::size_t>(stage.target.extent.width) * sizeof(float);
        std::byte* const* const room = work.sink.room();
        float* lines[kMostChannels];
        for (int32_t c = 0; c < stage.target.extent.channels; ++c)
          lines[c] = reinterpret_cast<float*>(room[c]);
        work.own.row(y, stage.count, lines);
        work.sink.wrote(bytes);
        continue;
      }
      if (stage.mix < 0) {
        work.own.row(y, stage.count, rows);
      } else {
        work.own.row(y, stage.mix, rows);
        work.others->row(y, stage.mix, work.partner_rows.rows());
        mix(work, y);
        work.own.change(stage.mix + 1, stage.count, y, rows);
      }
      write(work, rows);
    }
    work.sink.end();
  }

  void execute_partner(Work& work) {
    std::byte* const target = work.partner_image.data();
    if (work.raw)
      return work.raw->move(work.others->ops(), work.others->source(), target,
                            work.sink);
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

  static void mix(Work& work, int32_t y) {
    const Place first{y, 0, work.stage.target.extent};
    work.own.ops().visit(work.stage.mix, [&](const auto& settings, const auto& draw) {
      using Op = std::decay_t<decltype(settings)>;
      if constexpr (std::is_same_v<Op, Mix>)
        for (int32_t c = 0; c < first.extent.channels; ++c)
          mix_row(settings, draw, work.rows[c], work.partner_rows[c], first);
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

  std::vector<Work> stages_;
};

}  // namespace echobuf::transform
