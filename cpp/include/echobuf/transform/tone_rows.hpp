// Tones on the host: statistics of rows, and images of bytes that become others byte by
// byte, without floats.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/raw_rows.hpp"
#include "echobuf/transform/rows.hpp"

namespace echobuf::transform {

using Counts = std::array<uint32_t, kBins>;

/// The range of `count` numbers. In lanes, since the compiler must keep the order of
/// comparisons of floats.
inline Range range_of(const float* row, int32_t count, CpuLevel level = cpu_level()) {
  constexpr int32_t kLanes = 16;
  Range range = Range::none();
  work_fast(
      [row, count, to = &range] {
        float least[kLanes], most[kLanes];
        for (int32_t k = 0; k < kLanes; ++k) {
          least[k] = to->least;
          most[k] = to->most;
        }
        int32_t x = 0;
        for (; x + kLanes <= count; x += kLanes)
          for (int32_t k = 0; k < kLanes; ++k) {
            const float v = row[x + k];
            least[k] = v < least[k] ? v : least[k];
            most[k] = v > most[k] ? v : most[k];
          }
        Range all = *to;
        for (int32_t k = 0; k < kLanes; ++k) all.add({least[k], most[k]});
        for (; x < count; ++x) all.add(row[x]);
        *to = all;
      },
      level);
  return range;
}

/// The range of bytes, of `channels` that take turns.
template <int channels>
void add_range(const unsigned char* bytes, std::int64_t pixels, Range* ranges,
               CpuLevel level = cpu_level()) {
  constexpr int32_t kLanes = 16 * channels;
  work_fast(
      [bytes, pixels, ranges] {
        unsigned char least[kLanes], most[kLanes];
        std::memset(least, 255, sizeof least);
        std::memset(most, 0, sizeof most);
        std::int64_t x = 0;
        for (; x + 16 <= pixels; x += 16)
          for (int32_t k = 0; k < kLanes; ++k) {
            const unsigned char v = bytes[x * channels + k];
            least[k] = v < least[k] ? v : least[k];
            most[k] = v > most[k] ? v : most[k];
          }
        if (x > 0)
          for (int32_t k = 0; k < kLanes; ++k)
            ranges[k % channels].add(
                {static_cast<float>(least[k]), static_cast<float>(most[k])});
        for (; x < pixels; ++x)
          for (int c = 0; c < channels; ++c)
            ranges[c].add(static_cast<float>(bytes[x * channels + c]));
      },
      level);
}

/// Adds the counts of bytes that are `stride` apart. Neighbours are often alike: they
/// are counted in different places, so that none waits for the one before.
inline void add_counts(const unsigned char* bytes, std::int64_t count,
                       std::int64_t stride, Counts& counts) {
  std::array<Counts, 4> parts{};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t k = 0; k < 4; ++k)
      ++parts[k][bytes[(i + static_cast<std::int64_t>(k)) * stride]];
  for (; i < count; ++i) ++parts[0][bytes[i * stride]];
  for (std::size_t bin = 0; bin < kBins; ++bin)
    counts[bin] += parts[0][bin] + parts[1][bin] + parts[2][bin] + parts[3][bin];
}

inline void make_table(const Counts& counts, std::int64_t pixels,
                       unsigned char* table) {
  uint32_t last = 0;
  for (const uint32_t count : counts) last = count != 0 ? count : last;
  const uint32_t step = equalizing_step(pixels, last);
  uint32_t before = 0;
  for (uint32_t byte = 0; byte < kBins; ++byte) {
    table[byte] = equalized(byte, before, step);
    before += counts[byte];
  }
}

/// Pixels of a row made grey. The sums of three channels replace the first.
inline void grey_row(const Grey& settings, const Grey::Draw& draw, float* const* rows,
                     int32_t count) {
  if (draw.on == 0 && settings.from == settings.to) return;
  if (settings.from == 3) {
    float* const __restrict__ red = rows[0];
    const float* const __restrict__ green = rows[1];
    const float* const __restrict__ blue = rows[2];
    work_fast([op = settings, red, green, blue, count] {
      for (int32_t x = 0; x < count; ++x) red[x] = op.grey(red[x], green[x], blue[x]);
    });
  }
  if (settings.to == 3)
    for (int c = 1; c < 3; ++c)
      std::copy_n(rows[0], static_cast<std::size_t>(count), rows[c]);
}

/// A stage whose bytes are moved and then replaced one by one: its image is moved, and
/// changed where it then lies.
class ByteTones {
 public:
  static bool fits(const Stage& stage) {
    const bool bytes = stage.source.type == NumberType::kUint8 &&
                       stage.target.type == NumberType::kUint8;
    if (!bytes || stage.raw != 0 || stage.core != Core::kNone || stage.mix >= 0)
      return false;
    for (int32_t i = stage.after; i < stage.count; ++i)
      if (!is_tone(stage.ops[i].code)) return false;
    return stage.count > stage.after && is_dense(stage.target);
  }

  explicit ByteTones(const Stage& stage)
      : stage_(stage),
        moves_(stage),
        tables_(kBins * static_cast<std::size_t>(stage.target.extent.channels)) {
    moves_.count = moves_.after;
    moves_.raw = 1;
    moves_.statistic = -1;
  }

  /// `draws`: of the stage.
  void make(DrawBlock* draws, const std::byte* source, std::byte* target) {
    if (moves_.after == 0 && alike(stage_.source, stage_.target))
      std::memcpy(target, source, static_cast<std::size_t>(stage_.target.size()));
    else
      move_image(HostOps(moves_, draws), source, target);
    auto* const bytes = reinterpret_cast<unsigned char*>(target);
    const HostOps ops(stage_, draws);
    for (int32_t i = stage_.after; i < stage_.count; ++i)
      ops.visit(i, [&](const auto& op, const auto& draw) {
        if constexpr (requires { change(op, draw, bytes); }) change(op, draw, bytes);
      });
  }

 private:
  static bool is_tone(OpCode code) {
    return code == OpCode::kInvert || code == OpCode::kSolarize ||
           code == OpCode::kPosterize || code == OpCode::kAutoContrast ||
           code == OpCode::kEqualize;
  }
  static bool is_planar(const Layout& layout) {
    return layout.column == 1 && layout.row == layout.extent.width &&
           (layout.extent.channels == 1 || layout.channel == layout.extent.pixels());
  }
  static bool is_packed(const Layout& layout) {
    return layout.channel == 1 && layout.column == layout.extent.channels &&
           layout.row == std::int64_t{layout.extent.width} * layout.column;
  }
  static bool is_dense(const Layout& layout) {
    return is_planar(layout) || is_packed(layout);
  }
  static bool alike(const Layout& a, const Layout& b) {
    return a.row == b.row && a.column == b.column &&
           (a.channel == b.channel || a.extent.channels == 1);
  }

  std::int64_t size() const { return stage_.target.size(); }
  std::int64_t pixels() const { return stage_.target.extent.pixels(); }
  int32_t channels() const { return stage_.target.extent.channels; }

  template <class Use>
  void each(unsigned char* bytes, Use use) const {
    work_fast([bytes, use, count = size()] {
      for (std::int64_t i = 0; i < count; ++i) bytes[i] = use(bytes[i]);
    });
  }

  void change(const Invert&, const Invert::Draw& draw, unsigned char* bytes) {
    if (draw.on == 0) return;
    each(bytes, [](unsigned char b) { return static_cast<unsigned char>(~b); });
  }
  void change(const Solarize&, const Solarize::Draw& draw, unsigned char* bytes) {
    if (draw.on == 0) return;
    uint32_t first = 0;  // byte that is turned
    while (first < kBins && !(static_cast<float>(first) >= draw.threshold)) ++first;
    if (first == kBins) return;
    each(bytes, [from = static_cast<unsigned char>(first)](unsigned char b) {
      return b >= from ? static_cast<unsigned char>(~b) : b;
    });
  }
  void change(const Posterize&, const Posterize::Draw& draw, unsigned char* bytes) {
    if (draw.on == 0) return;
    each(bytes, [mask = static_cast<unsigned char>(Posterize::mask(draw))](
                    unsigned char b) { return static_cast<unsigned char>(b & mask); });
  }
  void change(const AutoContrast& op, const AutoContrast::Draw& draw,
              unsigned char* bytes) {
    if (draw.on == 0) return;
    Range ranges[AutoContrast::kChannels];
    for (Range& range : ranges) range = Range::none();
    if (channels() == 3 && stage_.target.channel == 1) {
      add_range<3>(bytes, pixels(), ranges);
    } else {
      for (int32_t c = 0; c < channels(); ++c)
        add_range<1>(bytes + c * pixels(), pixels(), ranges + c);
    }
    AutoContrast::Draw set = draw;
    const Place nowhere{};
    for (int32_t c = 0; c < channels(); ++c) {
      op.set(set, c, ranges[c]);
      for (uint32_t b = 0; b < kBins; ++b)
        table(c)[b] = static_cast<unsigned char>(
            op.element(set, static_cast<float>(b), c, nowhere));
    }
    look_up(bytes);
  }
  void change(const Equalize&, const Equalize::Draw& draw, unsigned char* bytes) {
    if (draw.on == 0) return;
    for (int32_t c = 0; c < channels(); ++c) {
      Counts counts{};
      add_counts(bytes + c * stage_.target.channel, pixels(), stage_.target.column,
                 counts);
      make_table(counts, pixels(), table(c));
    }
    look_up(bytes);
  }

  unsigned char* table(int32_t channel) {
    return tables_.data() + kBins * static_cast<std::size_t>(channel);
  }
  void look_up(unsigned char* bytes) {
    if (channels() == 3 && stage_.target.channel == 1) {
      const unsigned char* const __restrict__ red = table(0);
      const unsigned char* const __restrict__ green = table(1);
      const unsigned char* const __restrict__ blue = table(2);
      for (std::int64_t i = 0; i < 3 * pixels(); i += 3) {
        bytes[i] = red[bytes[i]];
        bytes[i + 1] = green[bytes[i + 1]];
        bytes[i + 2] = blue[bytes[i + 2]];
      }
      return;
    }
    for (int32_t c = 0; c < channels(); ++c) {
      const unsigned char* const __restrict__ with = table(c);
      unsigned char* const first = bytes + c * stage_.target.channel;
      const std::int64_t step = stage_.target.column;
      for (std::int64_t i = 0; i < pixels(); ++i)
        first[i * step] = with[first[i * step]];
    }
  }

  const Stage& stage_;
  Stage moves_;
  std::vector<unsigned char> tables_;
};

}  // namespace echobuf::transform
