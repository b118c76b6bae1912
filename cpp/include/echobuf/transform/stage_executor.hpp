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
#include "echobuf/transform/program.hpp"
#include "echobuf/transform/raw_rows.hpp"
#include "echobuf/transform/stage_rows.hpp"

namespace echobuf::transform {

class StageExecutor {
 public:
  /// `program` must outlive it. Throws std::bad_alloc; nothing is allocated later.
  /// `large`: how large rows are written, if not like others.
  StageExecutor(const Program& program, RowCopy large) : large_(large) {
    for (const ImageBuffer& buffer : program.buffers()) images_.emplace_back(buffer);
    stages_.reserve(program.stages.size());
    for (const Stage& stage : program.stages) {
      stages_.emplace_back(stage);
      if (stage.frames > 1) frames_ = stage.frames;
    }
  }

  /// About what one takes: the images between the stages, and rows.
  static std::size_t bytes(const Program& program) {
    constexpr std::size_t kBuffers = 8;
    std::size_t bytes = 0;
    for (const ImageBuffer& buffer : program.buffers()) bytes += buffer.all_bytes();
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
    // A frame goes through all stages before the next one: it stays in the caches.
    for (std::int32_t frame = 0; frame < frames_; ++frame)
      for (Work& work : stages_)
        if (frame < work.stage.frames)
          execute(work, frame, number, record, partner, target);
  }

 private:
  struct Work {
    explicit Work(const Stage& of)
        : stage(of),
          own(stage),
          rows(width(stage), channels(stage)),
          line(static_cast<std::size_t>(width(stage)) * stage.target.bytes + 64) {
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

    const Stage& stage;
    StageRows own;
    std::optional<StageRows> others;
    RowBlock rows;
    RowBlock partner_rows;
    std::vector<std::byte> line;  // a row as it will lie in memory
  };

  /// An image between stages, or one frame of it: the next stages read it at once.
  struct Image {
    explicit Image(const ImageBuffer& buffer)
        : is_frame(buffer.frames > 1),
          own(buffer.bytes),
          partner(buffer.doubled ? buffer.bytes : 0) {}

    bool is_frame;
    std::vector<std::byte> own;
    std::vector<std::byte> partner;
  };

  /// Carries out a stage on a frame, or on all of an example that has none.
  void execute(Work& work, std::int32_t frame, DrawNumber number,
               const std::byte* record, const std::byte* partner, std::byte* target) {
    const Stage& stage = work.stage;
    number.first_element = stage.first_element(static_cast<std::uint32_t>(frame));
    const bool last = stage.to == kLeaf;
    if (stage.gates.open(number, false)) {
      work.own.begin(number, false, source(stage, frame, record, false));
      if (stage.mix >= 0)
        work.others->begin(number, true, source(stage, frame, partner, true));
      execute(work,
              last ? target + frame * stage.target.size() : image(stage.to, false),
              last ? large_ : nullptr);
    }
    if (stage.doubled != 0 && stage.gates.open(number, true)) {
      work.others->begin(number, true, source(stage, frame, partner, true));
      execute_partner(work, image(stage.to, true));
    }
  }

  std::byte* image(int32_t buffer, bool partner) {
    Image& image = images_[static_cast<std::size_t>(buffer)];
    return (partner ? image.partner : image.own).data();
  }
  const std::byte* source(const Stage& stage, std::int32_t frame,
                          const std::byte* record, bool partner) {
    const std::int64_t before = frame * stage.source.size();
    if (stage.from == kRecord) return record + before;
    const bool is_frame = images_[static_cast<std::size_t>(stage.from)].is_frame;
    return image(stage.from, partner) + (is_frame ? 0 : before);
  }

  void execute(Work& work, std::byte* target, RowCopy large) {
    const Stage& stage = work.stage;
    if (stage.raw != 0) return move_image(work.own.ops(), work.own.source(), target);
    if (work.own.is_tones()) return work.own.make_tones(target);
    if (work.own.is_bytes_then_one()) return paint_bytes(work, target, large);
    for (int32_t y = 0; y < stage.target.extent.height; ++y) {
      float* const* const rows = work.rows.rows();
      if (stage.mix < 0) {
        work.own.row(y, stage.count, rows);
      } else {
        work.own.row(y, stage.mix, rows);
        work.others->row(y, stage.mix, work.partner_rows.rows());
        mix(work, y);
        work.own.change(stage.mix + 1, stage.count, y, rows);
      }
      write(work, y, rows, target, large);
    }
  }

  void execute_partner(Work& work, std::byte* target) {
    if (work.stage.raw != 0)
      return move_image(work.others->ops(), work.others->source(), target);
    if (work.others->is_tones()) return work.others->make_tones(target);
    for (int32_t y = 0; y < work.stage.target.extent.height; ++y) {
      work.others->row(y, work.stage.count, work.partner_rows.rows());
      write(work, y, work.partner_rows.rows(), target, nullptr);
    }
  }

  /// Bytes become numbers, are changed and written in one go.
  void paint_bytes(Work& work, std::byte* target, RowCopy large) {
    const Stage& stage = work.stage;
    const HostOps ops = work.own.ops();
    for (int32_t y = 0; y < stage.target.extent.height; ++y) {
      unsigned char* const* const rows = work.own.byte_row(y);
      const Place first{y, 0, stage.target.extent};
      if (stage.count == stage.after) {
        convert(Same{}, Same::Draw{}, work, rows, first, target, large);
        continue;
      }
      ops.visit(stage.after, [&](const auto& op, const auto& draw) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, Normalize> || std::is_same_v<Op, Scale>)
          convert(op, draw, work, rows, first, target, large);
      });
    }
  }

  struct Same {
    struct Draw {};
    float element(const Draw&, float v, int, const Place&) const { return v; }
  };

  template <class Op>
  static void convert(const Op& settings, const typename Op::Draw& draw, Work& work,
                      unsigned char* const* rows, const Place& place, std::byte* target,
                      RowCopy large) {
    const Layout& layout = work.stage.target;
    with_type(layout.type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const int32_t width = layout.extent.width;
      const auto bytes = static_cast<std::size_t>(width) * sizeof(T);
      const bool past = large && layout.column == 1 && bytes >= kWriteRow;
      for (int32_t c = 0; c < layout.extent.channels; ++c) {
        std::byte* const to = target + layout.offset(place.y, 0, c);
        std::byte* const __restrict__ line = past ? work.line.data() : to;
        const unsigned char* const __restrict__ row = rows[c];
        const std::ptrdiff_t step = layout.column;
        work_fast([op = settings, d = draw, at = place, line, row, c, width, step] {
          if (step == 1) {
            for (int32_t x = 0; x < width; ++x) {
              const T value = number_of<T>(op.element(d, row[x], c, at));
              std::memcpy(line + static_cast<std::size_t>(x) * sizeof(T), &value,
                          sizeof(T));
            }
          } else {
            for (int32_t x = 0; x < width; ++x) {
              const T value = number_of<T>(op.element(d, row[x], c, at));
              std::memcpy(line + x * step * static_cast<std::ptrdiff_t>(sizeof(T)),
                          &value, sizeof(T));
            }
          }
        });
        if (past) large(to, line, bytes);
      }
    });
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

  static void write(Work& work, int32_t y, float* const* rows, std::byte* target,
                    RowCopy large) {
    const Layout& layout = work.stage.target;
    with_type(layout.type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const int32_t width = layout.extent.width;
      for (int32_t c = 0; c < layout.extent.channels; ++c) {
        std::byte* const to = target + layout.offset(y, 0, c);
        const auto bytes = static_cast<std::size_t>(width) * sizeof(T);
        if (!large || layout.column != 1 || bytes < kWriteRow) {
          write_numbers<T>(rows[c], width, to, layout.column);
        } else if constexpr (std::is_same_v<T, float>) {
          large(to, reinterpret_cast<const std::byte*>(rows[c]), bytes);
        } else {
          write_numbers<T>(rows[c], width, work.line.data(), 1);
          large(to, work.line.data(), bytes);
        }
      }
    });
  }

  /// Rows from here on are written past the caches where that is asked for.
  static constexpr std::size_t kWriteRow = 256;

  const RowCopy large_;
  std::vector<Image> images_;
  std::vector<Work> stages_;
  std::int32_t frames_ = 1;
};

}  // namespace echobuf::transform
