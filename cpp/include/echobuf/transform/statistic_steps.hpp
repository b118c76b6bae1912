#pragma once

#include "echobuf/draw/block_threads.hpp"
#include "echobuf/transform/stage_kernel.hpp"

// The statistics of images on the device, and on the host as it simulates one. A first
// launch looks at the images: each block writes what it finds in its tile. In the
// launch that makes the images each block puts these parts together.

namespace echobuf::transform {

namespace detail {

template <bool kept>
struct KeptSums {};
template <>
struct KeptSums<true> {
  int64_t sums_of_threads[kStageThreads];
};

template <bool kept>
struct KeptRanges {};
template <>
struct KeptRanges<true> {
  Range ranges[AutoContrast::kChannels][kStageThreads];
};

template <bool kept, int channels>
struct KeptCounts {};
template <int channels>
struct KeptCounts<true, channels> {
  uint32_t counts[channels][kBins];
};

/// Bytes of a tile, so many at once that in none of four numbers of a word the count
/// passes 255.
inline constexpr int32_t kBytesAtOnce = 4 * 255;

template <bool kept, int channels>
struct KeptBytes {};
template <int channels>
struct KeptBytes<true, channels> {
  uint32_t words[channels][kBytesAtOnce / 4];
};

template <bool kept, int images, int channels>
struct KeptTables {};
template <int images, int channels>
struct KeptTables<true, images, channels> {
  unsigned char tables[images][channels * kBins];
};

}  // namespace detail

/// Block memory for a statistic: of a tile (`summing`), or of the parts put together.
template <class Stage, bool summing>
struct StatisticMemory
    : detail::KeptSums<Stage::may(Statistic::kMean) && summing>,
      detail::KeptRanges<Stage::may(Statistic::kRange) && summing>,
      detail::KeptCounts<Stage::may(Statistic::kHistogram), Stage::kChannels>,
      detail::KeptBytes<Stage::may(Statistic::kHistogram) && summing, Stage::kChannels>,
      detail::KeptTables<Stage::may(Statistic::kHistogram) && !summing,
                         Stage::kMayMix ? 2 : 1, Stage::kChannels> {};

/// The address of what a block has found, or of what the first one has.
ECHOBUF_HD inline uint64_t statistic_at(const StageLaunch& a, const StageBlock& block,
                                        uint32_t who, uint32_t tile, uint64_t bytes) {
  const uint64_t first = block.image(a, who) * block.tile.count();
  return a.sums + (first + tile) * bytes;
}

/// Returns whether the image is looked at: chance may have said that it is left alone.
template <class Ops>
ECHOBUF_HD bool is_looked_at(const Ops& ops) {
  bool looks = true;
  ops.visit(ops.stage().statistic, [&](const auto& op, const auto& draw) {
    if constexpr (requires { op.looks(draw); }) looks = op.looks(draw);
  });
  return looks;
}

// ---- first launch: a tile

/// The sum for a mean over the pixels of a thread.
template <class Ops>
ECHOBUF_HD int64_t sum_grey(const StageBlock& block, uint32_t thread, const Ops& ops,
                            uint64_t image) {
  int64_t sum = 0;
  const Puller<Ops> puller(ops, image);
  block.pixels(thread, [&](int32_t y, int32_t x) {
    float v[kMostChannels];
    puller.moved(y, x, v);
    ops.visit(ops.stage().statistic, [&](const auto& op, const auto& draw) {
      if constexpr (requires { op.grey_before_contrast(draw, v); })
        sum += GreySum::term(op.grey_before_contrast(draw, v));
    });
  });
  return sum;
}

/// Adds up the grey of a tile.
template <class Threads, class Ops, class Memory>
ECHOBUF_HD void sum_block(const Threads& threads, const StageBlock& block,
                          const Ops& ops, uint64_t to, Memory& memory) {
  int64_t* const sums = memory.sums_of_threads;
  threads.all([&](uint32_t thread) {
    sums[thread] = sum_grey(block, thread, ops, memory.image[block.partner]);
  });
  for (uint32_t left = kStageThreads / 2; left > 1; left /= 2)
    threads.all([&](uint32_t thread) {
      if (thread < left) sums[thread] += sums[thread + left];
    });
  threads.last([&](uint32_t thread) {
    if (thread == 0) device::store(to, sums[0] + sums[1]);
  });
}

/// Finds the range of each channel of a tile.
template <class Threads, class Ops, class Memory>
ECHOBUF_HD void range_block(const Threads& threads, const StageBlock& block,
                            const Ops& ops, uint64_t to, Memory& memory) {
  constexpr int kMost = AutoContrast::kChannels;
  const int32_t channels = exact::least(ops.stage().target.extent.channels, kMost);
  threads.all([&](uint32_t thread) {
    Range own[kMost];
    for (Range& range : own) range = Range::none();
    const Puller<Ops> puller(ops, memory.image[block.partner]);
    block.pixels(thread, [&](int32_t y, int32_t x) {
      float v[kMostChannels];
      puller.moved(y, x, v);
      ECHOBUF_UNROLL
      for (int32_t c = 0; c < kMost; ++c)
        if (c < channels) own[c].add(v[c]);
    });
    for (int32_t c = 0; c < kMost; ++c) memory.ranges[c][thread] = own[c];
  });
  for (uint32_t left = kStageThreads / 2; left > 0; left /= 2)
    threads.all([&](uint32_t thread) {
      if (thread >= left) return;
      for (int32_t c = 0; c < channels; ++c)
        memory.ranges[c][thread].add(memory.ranges[c][thread + left]);
    });
  threads.last([&](uint32_t thread) {
    if (thread < static_cast<uint32_t>(channels))
      device::store(to + thread * sizeof(Range), memory.ranges[thread][0]);
  });
}

/// How many of the first `count` bytes are `byte`.
ECHOBUF_HD inline uint32_t count_bytes(const uint32_t* words, int32_t count,
                                       uint32_t byte) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(words);
  const uint32_t all = byte * 0x01010101u;
  uint32_t sums = 0;  // of the four bytes of a word apart
  const int32_t whole = count / 4;
  for (int32_t i = 0; i < whole; ++i) {
    const uint32_t other = words[i] ^ all;  // 0 where they are equal
    const uint32_t unequal = ((other & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | other;
    sums += ~unequal >> 7 & 0x01010101u;
  }
  uint32_t sum =
      (sums & 255u) + (sums >> 8 & 255u) + (sums >> 16 & 255u) + (sums >> 24);
  for (int32_t i = whole * 4; i < count; ++i) sum += bytes[i] == byte ? 1 : 0;
  return sum;
}

/// Counts the bytes of each channel of a tile: each thread those of one value. So no
/// two threads add to one number.
template <class Threads, class Ops, class Memory>
ECHOBUF_HD void count_block(const Threads& threads, const StageBlock& block,
                            const Ops& ops, uint64_t to, Memory& memory) {
  static_assert(kStageThreads == kBins);
  const StagePlan stage = ops.stage();
  const int32_t channels = stage.target.extent.channels;
  const int32_t width = block.right - block.left;
  const int32_t pixels = width * (block.bottom - block.top);
  threads.all([&](uint32_t thread) {
    for (int32_t c = 0; c < channels; ++c) memory.counts[c][thread] = 0;
  });
  for (int32_t begin = 0; begin < pixels; begin += detail::kBytesAtOnce) {
    const int32_t count = exact::least(pixels - begin, detail::kBytesAtOnce);
    threads.all([&](uint32_t thread) {
      const Puller<Ops> puller(ops, memory.image[block.partner]);
      for (auto i = static_cast<int32_t>(thread); i < count;
           i += static_cast<int32_t>(kStageThreads)) {
        float v[kMostChannels];
        puller.moved(block.top + (begin + i) / width, block.left + (begin + i) % width,
                     v);
        ops.visit(stage.statistic, [&](const auto& op, const auto&) {
          if constexpr (requires { op.byte_of(0.0f); })
            for (int32_t c = 0; c < channels; ++c)
              reinterpret_cast<unsigned char*>(memory.words[c])[i] =
                  static_cast<unsigned char>(op.byte_of(v[c]));
        });
      }
    });
    threads.all([&](uint32_t thread) {
      for (int32_t c = 0; c < channels; ++c)
        memory.counts[c][thread] += count_bytes(memory.words[c], count, thread);
    });
  }
  threads.last([&](uint32_t thread) {
    for (int32_t c = 0; c < channels; ++c)
      device::store(to + (static_cast<uint32_t>(c) * kBins + thread) * sizeof(uint32_t),
                    memory.counts[c][thread]);
  });
}

/// Looks at a tile, and writes what it finds.
template <class Threads, class Stage, class Ops, class Memory>
ECHOBUF_HD void look_at_block(const Threads& threads, const StageLaunch& a,
                              const StageBlock& block, const Stage& known,
                              const Ops& ops, Memory& memory) {
  const Statistic kind = known.statistic();
  const StagePlan stage = ops.stage();
  const uint64_t to = statistic_at(a, block, block.partner, block.number,
                                   statistic_bytes(kind, stage.target.extent.channels));
  if (!is_looked_at(ops)) return;
  if constexpr (Stage::may(Statistic::kMean))
    if (kind == Statistic::kMean) sum_block(threads, block, ops, to, memory);
  if constexpr (Stage::may(Statistic::kRange))
    if (kind == Statistic::kRange) range_block(threads, block, ops, to, memory);
  if constexpr (Stage::may(Statistic::kHistogram))
    if (kind == Statistic::kHistogram) count_block(threads, block, ops, to, memory);
}

// ---- second launch: the parts of all tiles

/// Sets the mean that a contrast is about.
template <class Memory>
ECHOBUF_HD void set_mean(const StageLaunch& a, const StageBlock& block,
                         const StagePlan& stage, uint32_t thread, Memory& memory) {
  if (thread > 1 || !block.needs(thread, stage)) return;
  int64_t sum = 0;
  const uint64_t sums = statistic_at(a, block, thread, 0, sizeof(int64_t));
  for (uint32_t i = 0; i < block.tile.count(); ++i)
    sum += device::load<int64_t>(sums + i * sizeof(int64_t));
  memory.draws[thread][stage.statistic].template as<Jitter::Draw>().mean =
      GreySum::mean(sum, stage.target.extent.pixels());
}

/// Sets the range of one channel of one image.
template <class Ops, class Memory>
ECHOBUF_HD void set_range(const StageLaunch& a, const StageBlock& block, const Ops& ops,
                          uint32_t who, uint32_t channel, Memory& memory) {
  const StagePlan stage = ops.stage();
  const uint64_t bytes =
      statistic_bytes(Statistic::kRange, stage.target.extent.channels);
  const uint64_t ranges = statistic_at(a, block, who, 0, bytes);
  Range range = Range::none();
  for (uint32_t i = 0; i < block.tile.count(); ++i)
    range.add(device::load<Range>(ranges + i * bytes + channel * sizeof(Range)));
  auto& draw = memory.draws[who][stage.statistic].template as<AutoContrast::Draw>();
  ops.visit(stage.statistic, [&](const auto& op, const auto&) {
    if constexpr (requires { op.set(draw, 0, range); })
      op.set(draw, static_cast<int>(channel), range);
  });
}

/// The byte that equalising makes of `byte`, with the counts of all.
ECHOBUF_HD inline unsigned char equalized_by(const uint32_t* counts, uint32_t byte,
                                             int64_t pixels) {
  uint32_t before = 0;
  uint32_t last = 0;
  for (uint32_t i = 0; i < kBins; ++i) {
    const uint32_t count = counts[i];
    before += i < byte ? count : 0;
    last = count != 0 ? count : last;
  }
  return equalized(byte, before, equalizing_step(pixels, last));
}

/// Makes the table of one image of the counts of its tiles.
template <class Threads, class Ops, class Memory>
ECHOBUF_HD void set_table(const Threads& threads, const StageLaunch& a,
                          const StageBlock& block, const Ops& ops, uint32_t who,
                          unsigned char* table, Memory& memory) {
  const StagePlan stage = ops.stage();
  const int32_t channels = stage.target.extent.channels;
  const uint64_t bytes = statistic_bytes(Statistic::kHistogram, channels);
  const uint64_t counts = statistic_at(a, block, who, 0, bytes);
  threads.all([&](uint32_t thread) {
    for (int32_t c = 0; c < channels; ++c) {
      const uint64_t from =
          counts + (static_cast<uint32_t>(c) * kBins + thread) * sizeof(uint32_t);
      uint32_t count = 0;
      for (uint32_t i = 0; i < block.tile.count(); ++i)
        count += device::load<uint32_t>(from + i * bytes);
      memory.counts[c][thread] = count;
    }
  });
  threads.all([&](uint32_t thread) {
    for (int32_t c = 0; c < channels; ++c)
      table[static_cast<uint32_t>(c) * kBins + thread] =
          equalized_by(memory.counts[c], thread, stage.target.extent.pixels());
    if (thread == 0)
      memory.draws[who][stage.statistic].template as<Equalize::Draw>().table = table;
  });
}

/// Puts the parts together, for each image that the block needs. `ops_of(who)`: the
/// operations of one of them, as they are drawn.
template <class Threads, class Stage, class OpsOf, class Memory>
ECHOBUF_HD void find_statistic(const Threads& threads, const StageLaunch& a,
                               const StageBlock& block, const Stage& known,
                               const OpsOf& ops_of, Memory& memory) {
  const Statistic kind = known.statistic();
  const StagePlan stage = known.stage();
  if constexpr (Stage::may(Statistic::kMean))
    if (kind == Statistic::kMean)
      threads.all([&](uint32_t thread) { set_mean(a, block, stage, thread, memory); });
  if constexpr (Stage::may(Statistic::kRange))
    if (kind == Statistic::kRange)
      threads.all([&](uint32_t thread) {
        const uint32_t who = thread / 4;
        const uint32_t channel = thread % 4;
        if (who > 1 || !block.needs(who, stage)) return;
        if (channel >= static_cast<uint32_t>(stage.target.extent.channels)) return;
        const auto ops = ops_of(who);
        if (is_looked_at(ops)) set_range(a, block, ops, who, channel, memory);
      });
  if constexpr (Stage::may(Statistic::kHistogram))
    if (kind == Statistic::kHistogram)
      for (uint32_t image = 0; image < (Stage::kMayMix ? 2 : 1); ++image) {
        // Asked so that no compiler reads ahead what the other image would have drawn.
        if (Stage::kMayMix && stage.mix < 0 && image > 0) break;
        const uint32_t who = Stage::kMayMix && stage.mix >= 0 ? image : block.partner;
        const auto ops = ops_of(who);
        if (is_looked_at(ops))
          set_table(threads, a, block, ops, who, memory.tables[image], memory);
      }
}

}  // namespace echobuf::transform
