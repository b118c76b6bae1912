// Rows of an image in memory as rows of floats, columns picked by maps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "echobuf/store/copy.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/transform/image.hpp"
#include "echobuf/transform/rows.hpp"
#include "echobuf/transform/shuffles.hpp"

namespace echobuf::transform {

/// Columns of a result that come from neighbours in the source, in the same order or in
/// reverse; or from outside of it.
struct Run {
  int32_t target;  // the first column
  int32_t source;  // of that column, or kOutside
  int32_t count;
  int32_t step;  // 1 or -1
};

/// Puts columns together to runs.
inline void find_runs(const int32_t* source, int32_t count, std::vector<Run>& runs) {
  runs.clear();
  for (int32_t i = 0; i < count;) {
    const int32_t from = source[i];
    int32_t end = i + 1;
    int32_t step = from == kOutside ? 0 : 1;
    if (from != kOutside && end < count && source[end] == from - 1 &&
        source[end] != kOutside)
      step = -1;
    // In reverse, what comes before column 0 is not the one called kOutside.
    const auto goes_on = [&] {
      return source[end] == from + step * (end - i) &&
             (source[end] == kOutside) == (from == kOutside);
    };
    while (end < count && goes_on()) ++end;
    runs.push_back({i, from, end - i, step == 0 ? 1 : step});
    i = end;
  }
}

/// Asks for what is read a few rows after `bytes` at `row`: the processor itself
/// follows a stream no further than a page, and not across gaps.
inline void ask_for(const std::byte* row, std::size_t bytes) {
  constexpr std::size_t kDistance = 4096;
  for (std::size_t i = 0; i < std::min(bytes, kDistance); i += 64)
    prefetch_for_read<3>(row + kDistance + i);
}

/// Rows of `T`, a channel each, apart from each other and aligned to cache lines.
template <class T>
class Rows {
 public:
  Rows() = default;
  Rows(Rows&&) noexcept = default;  // the rows point into its memory: no copies
  Rows& operator=(Rows&&) noexcept = default;
  Rows(int32_t width, int32_t channels) {
    const std::size_t stride =
        round_up(static_cast<std::size_t>(width), kLine / sizeof(T));
    memory_.resize(stride * static_cast<std::size_t>(channels) + kLine / sizeof(T));
    auto* const first = reinterpret_cast<T*>(
        round_up(reinterpret_cast<std::uintptr_t>(memory_.data()), kLine));
    for (int32_t c = 0; c < channels; ++c)
      rows_.push_back(first + static_cast<std::size_t>(c) * stride);
  }

  T* const* rows() const { return rows_.data(); }
  T* operator[](int32_t channel) const {
    return rows_[static_cast<std::size_t>(channel)];
  }

 private:
  static constexpr std::size_t kLine = 64;

  std::vector<T> memory_;
  std::vector<T*> rows_;
};
using RowBlock = Rows<float>;
using ByteRows = Rows<unsigned char>;

/// True if numbers of an image are bytes, which are then taken apart as such.
inline bool is_bytes(const Layout& layout) {
  return layout.type == NumberType::kUint8 || layout.type == NumberType::kBool;
}

/// Reads `count` pixels from `from` on, in their order, to `rows` from column `at` on.
inline void read_bytes(const Layout& layout, const std::byte* from, int32_t count,
                       unsigned char* const* rows, int32_t at) {
  std::byte* planes[kMostChannels];
  for (int32_t c = 0; c < layout.extent.channels; ++c)
    planes[c] = reinterpret_cast<std::byte*>(rows[c] + at);
  if (layout.column != 1)
    return split_pixels(layout.extent.channels, 1, from, count, planes);
  for (int32_t c = 0; c < layout.extent.channels; ++c)
    std::memcpy(planes[c], from + layout.offset(0, 0, c),
                static_cast<std::size_t>(count));
}

/// Pixels of numbers taken apart, a few at a time, and made floats.
template <class T>
void read_pixels(int32_t channels, const std::byte* from, int32_t count,
                 float* const* rows, int32_t at) {
  constexpr int32_t kPixels = 128;
  alignas(64) std::byte memory[kMostChannels][kPixels * sizeof(T)];
  std::byte* planes[kMostChannels];
  for (int32_t c = 0; c < channels; ++c) planes[c] = memory[c];
  const auto pixel = sizeof(T) * static_cast<std::size_t>(channels);
  for (int32_t i = 0; i < count; i += kPixels) {
    const int32_t some = std::min(kPixels, count - i);
    split_pixels(channels, sizeof(T), from + static_cast<std::size_t>(i) * pixel, some,
                 planes);
    for (int32_t c = 0; c < channels; ++c)
      read_numbers<T>(planes[c], some, rows[c] + at + i);
  }
}
inline void read_floats(const Layout& layout, const std::byte* from, int32_t count,
                        float* const* rows, int32_t at) {
  const int32_t channels = layout.extent.channels;
  with_type(layout.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (layout.column == 1) {
      for (int32_t c = 0; c < channels; ++c)
        read_numbers<T>(from + layout.offset(0, 0, c), count, rows[c] + at);
    } else if constexpr (std::is_same_v<T, float>) {
      std::byte* planes[kMostChannels];
      for (int32_t c = 0; c < channels; ++c)
        planes[c] = reinterpret_cast<std::byte*>(rows[c] + at);
      split_pixels(channels, sizeof(T), from, count, planes);
    } else {
      read_pixels<T>(channels, from, count, rows, at);
    }
  });
}

template <class T>
void reverse_row(const T* from, int32_t count, T* to) {
  reverse_pieces(sizeof(T), reinterpret_cast<const std::byte*>(from), count,
                 reinterpret_cast<std::byte*>(to));
}

/// Reads the columns of `runs` by `read`; those outside become what `fill` says of a
/// channel.
template <class T, class Read, class Fill>
void read_runs(const Layout& layout, const std::byte* row, const std::vector<Run>& runs,
               T* const* rows, T* const* spare, Read&& read, Fill&& fill) {
  for (const Run& run : runs) {
    if (run.source == kOutside) {
      for (int32_t c = 0; c < layout.extent.channels; ++c)
        std::fill_n(rows[c] + run.target, run.count, static_cast<T>(fill(c)));
    } else if (run.step == 1) {
      read(layout, row + layout.offset(0, run.source, 0), run.count, rows, run.target);
    } else {
      const int32_t first = run.source - run.count + 1;
      read(layout, row + layout.offset(0, first, 0), run.count, spare, 0);
      for (int32_t c = 0; c < layout.extent.channels; ++c)
        reverse_row(spare[c], run.count, rows[c] + run.target);
    }
  }
}

}  // namespace echobuf::transform
