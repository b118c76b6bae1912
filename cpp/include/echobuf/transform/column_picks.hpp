// Columns of a row picked out as bytes: in runs where neighbours stay neighbours, by
// shuffles where they do not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/row_sink.hpp"
#include "echobuf/transform/shuffles.hpp"
#include "echobuf/transform/source_rows.hpp"

namespace echobuf::transform {

/// Puts `count` copies of a piece of `bytes` next to each other.
inline void fill_pieces(const std::byte* piece, std::size_t bytes, std::int32_t count,
                        std::byte* to) {
  const std::size_t all = bytes * static_cast<std::size_t>(count);
  if (bytes == 1) {
    std::memset(to, static_cast<int>(*piece), all);
    return;
  }
  std::memcpy(to, piece, bytes);
  for (std::size_t done = bytes; done < all;) {  // what is there is copied behind it
    const std::size_t some = std::min(done, all - done);
    std::memcpy(to + done, to, some);
    done += some;
  }
}

/// How the columns of a result come from a row of pieces: the same for all rows.
class ColumnPicks {
 public:
  /// Pieces of `bytes`, at most `width` of them. Throws std::bad_alloc; nothing is
  /// allocated later.
  ColumnPicks(std::int32_t width, std::size_t bytes) : bytes_(bytes) {
    runs_.reserve(static_cast<std::size_t>(width));
    if (bytes <= detail::kWord)
      blocks_.resize(static_cast<std::size_t>(width) * bytes / detail::kWord);
  }

  /// Looks at where `count` columns come from in a row of `width` pieces.
  void find(const std::int32_t* index, std::int32_t count, std::int32_t width,
            CpuLevel level = cpu_level()) {
    find_runs(index, count, runs_);
    shuffled_ = 0;
    const auto all = static_cast<std::size_t>(count) * bytes_;
    if (level >= CpuLevel::kAvx2 && bytes_ <= detail::kWord &&
        all < kLongRun * runs_.size())
      find_blocks(index, static_cast<std::size_t>(width) * bytes_, all / detail::kWord);
    // The runs that shuffles have not done to their ends.
    const auto done = static_cast<std::int32_t>(shuffled_ * detail::kWord / bytes_);
    first_run_ = 0;
    while (first_run_ < runs_.size() &&
           runs_[first_run_].target + runs_[first_run_].count <= done)
      ++first_run_;
  }

  /// True if the columns are neighbours, in their order.
  bool neighbours() const {
    return runs_.size() == 1 && runs_[0].step == 1 && runs_[0].source != kOutside;
  }
  /// The first of these.
  const std::byte* first(const std::byte* row) const {
    return row + at(runs_[0].source);
  }

  /// Picks them out of `row`; `fill`: the piece outside of it.
  void pick(const std::byte* row, const std::byte* fill, std::byte* to) const {
#if defined(__x86_64__) && defined(__GNUC__)
    if (shuffled_ > 0) shuffle(row, to);
#endif
    for (std::size_t i = first_run_; i < runs_.size(); ++i)
      pick_run(runs_[i], row, fill, to + at(runs_[i].target));
  }

  /// True if the columns come in long runs, which `write` makes the most of.
  bool long_runs() const { return shuffled_ == 0; }
  /// The same to a sink, run by run: neighbours go there straight from the row.
  void write(const std::byte* row, const std::byte* fill, RowSink& sink) const {
    for (const Run& run : runs_) {
      const std::size_t bytes = bytes_ * static_cast<std::size_t>(run.count);
      if (run.source != kOutside && run.step == 1) {
        sink.write(row + at(run.source), bytes);
      } else {
        pick_run(run, row, fill, sink.room());
        sink.wrote(bytes);
      }
    }
  }

 private:
  void pick_run(const Run& run, const std::byte* row, const std::byte* fill,
                std::byte* to) const {
    if (run.source == kOutside)
      fill_pieces(fill, bytes_, run.count, to);
    else if (run.step == 1)
      std::memcpy(to, row + at(run.source),
                  bytes_ * static_cast<std::size_t>(run.count));
    else
      reverse_pieces(bytes_, row + at(run.source - run.count + 1), run.count, to);
  }

  static constexpr std::size_t kLongRun = 128;  // bytes: from here on a copy is faster
  static constexpr int kMostWords = 4;

  /// A word of the result, which comes from up to kMostWords words of the row.
  struct Block {
    std::size_t from;
    alignas(detail::kWord) unsigned char pick[kMostWords][detail::kWord];
  };

  std::ptrdiff_t at(std::int32_t column) const {
    return static_cast<std::ptrdiff_t>(column) * static_cast<std::ptrdiff_t>(bytes_);
  }

  /// The bytes of the row that word `i` of the result comes from.
  struct Places {
    std::size_t least;
    std::size_t last;
    std::size_t byte[detail::kWord];
  };
  bool find_places(const std::int32_t* index, std::size_t i, Places& places) const {
    std::size_t piece = i * detail::kWord / bytes_, byte = i * detail::kWord % bytes_;
    places.least = ~std::size_t{0};
    places.last = 0;
    for (std::size_t& place : places.byte) {
      if (index[piece] == kOutside) return false;
      place = static_cast<std::size_t>(index[piece]) * bytes_ + byte;
      places.least = std::min(places.least, place);
      places.last = std::max(places.last, place);
      if (++byte == bytes_) byte = 0, ++piece;
    }
    return true;
  }

  /// Finds the words up to the first that comes from far apart, or from outside.
  void find_blocks(const std::int32_t* index, std::size_t row, std::size_t most) {
    words_ = 1;
    Places places;
    for (; shuffled_ < most; ++shuffled_) {
      if (!find_places(index, shuffled_, places)) break;
      const std::size_t words = (places.last - places.least) / detail::kWord + 1;
      if (words > kMostWords || words * detail::kWord > row) break;
      words_ = std::max(words_, words);
    }
    if (words_ * detail::kWord > row) shuffled_ = 0;
    for (std::size_t i = 0; i < shuffled_; ++i) {
      find_places(index, i, places);
      Block& block = blocks_[i];
      block.from = std::min(places.least, row - words_ * detail::kWord);
      unsigned char byte[detail::kWord];
      for (std::size_t k = 0; k < detail::kWord; ++k)
        byte[k] = static_cast<unsigned char>(places.byte[k] - block.from);
      for (std::size_t w = 0; w < words_; ++w)
        for (std::size_t k = 0; k < detail::kWord; ++k) {
          const auto at = static_cast<unsigned char>(byte[k] - w * detail::kWord);
          block.pick[w][k] = at < detail::kWord ? at : 0x80;
        }
    }
  }

#if defined(__x86_64__) && defined(__GNUC__)
  template <int words>
  __attribute__((target("avx2"))) void shuffle(const std::byte* row,
                                               std::byte* to) const {
    for (std::size_t i = 0; i < shuffled_; ++i) {
      const Block& block = blocks_[i];
      const std::byte* const from = row + block.from;
      __m128i all = _mm_setzero_si128();
#pragma GCC unroll 4
      for (int w = 0; w < words; ++w) {
        const auto* word = reinterpret_cast<const __m128i*>(from + w * detail::kWord);
        const auto* picks = reinterpret_cast<const __m128i*>(block.pick[w]);
        all = _mm_or_si128(
            all, _mm_shuffle_epi8(_mm_loadu_si128(word), _mm_load_si128(picks)));
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * detail::kWord), all);
    }
  }
  void shuffle(const std::byte* row, std::byte* to) const {
    switch (words_) {
      case 1:
        return shuffle<1>(row, to);
      case 2:
        return shuffle<2>(row, to);
      case 3:
        return shuffle<3>(row, to);
      default:
        return shuffle<kMostWords>(row, to);
    }
  }
#endif

  std::size_t bytes_;
  std::vector<Run> runs_;
  std::vector<Block> blocks_;
  std::size_t shuffled_ = 0;   // words of the result that shuffles make
  std::size_t first_run_ = 0;  // that is left then
  std::size_t words_ = 0;      // of the row that each comes from, at most
};

}  // namespace echobuf::transform
