// Pixels taken apart into planes, put together from planes, and put in the other order:
// elements of any size, moved as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "echobuf/cpu.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace echobuf::transform {

namespace detail {

inline constexpr int kWord = 16;  // bytes that one shuffle picks from

enum class ByteOrder { kSplit, kMerge, kReverse };

/// The byte that a block of `words` words has at `i` afterwards. A block has
/// kWord / `bytes` pixels, each of `words` elements of `bytes`.
constexpr int byte_before(ByteOrder order, int words, int bytes, int i) {
  const int pixel = words * bytes;
  switch (order) {
    case ByteOrder::kSplit:
      return (i % kWord / bytes * words + i / kWord) * bytes + i % bytes;
    case ByteOrder::kMerge:
      return i % pixel / bytes * kWord + i / pixel * bytes + i % bytes;
    default:
      return (kWord / bytes - 1 - i / pixel) * pixel + i % pixel;
  }
}

/// For each word afterwards and each word before: the shuffle that picks the bytes of
/// the one out of the other.
template <ByteOrder order, int words, int bytes>
struct Shuffles {
  alignas(2 * kWord) unsigned char at[words][words][2 * kWord] = {};
  bool any[words][words] = {};

  constexpr Shuffles() {
    for (int to = 0; to < words; ++to)
      for (int from = 0; from < words; ++from)
        for (int i = 0; i < kWord; ++i) {
          const int byte = byte_before(order, words, bytes, to * kWord + i);
          const bool here = byte / kWord == from;
          any[to][from] = any[to][from] || here;
          const auto pick = static_cast<unsigned char>(here ? byte % kWord : 0x80);
          at[to][from][i] = at[to][from][i + kWord] = pick;
        }
  }
};
template <ByteOrder order, int words, int bytes>
inline constexpr Shuffles<order, words, bytes> kShuffles{};

/// The places of the words of blocks: those of the first one, and how far the next is.
template <class Byte, int words, std::ptrdiff_t step>
struct Blocks {
  static constexpr std::ptrdiff_t kStep = step;
  Byte* word[words];
};

template <int words, class Byte>
auto in_a_row(Byte* first) {
  Blocks<Byte, words, words * kWord> blocks;
  for (int i = 0; i < words; ++i) blocks.word[i] = first + i * kWord;
  return blocks;
}
template <int words, class Byte>
auto backwards(Byte* last) {
  Blocks<Byte, words, -words * kWord> blocks;
  for (int i = 0; i < words; ++i) blocks.word[i] = last + (i - words) * kWord;
  return blocks;
}
template <int words, class Byte>
auto in_planes(Byte* const* planes, std::ptrdiff_t first) {
  Blocks<Byte, words, kWord> blocks;
  for (int i = 0; i < words; ++i) blocks.word[i] = planes[i] + first;
  return blocks;
}

#if defined(__x86_64__) && defined(__GNUC__)
template <std::ptrdiff_t step>
__attribute__((target("avx2"))) inline __m256i load_two(const std::byte* word) {
  const auto* const first = reinterpret_cast<const __m128i*>(word);
  if constexpr (step == kWord) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(word));
  } else if constexpr (step == -kWord) {
    const auto* both = reinterpret_cast<const __m256i*>(word - kWord);
    return _mm256_permute4x64_epi64(_mm256_loadu_si256(both), 0x4E);
  } else {
    const auto* const second = reinterpret_cast<const __m128i*>(word + step);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                   _mm_loadu_si128(second), 1);
  }
}
template <std::ptrdiff_t step>
__attribute__((target("avx2"))) inline void store_two(std::byte* word, __m256i two) {
  if constexpr (step == kWord) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(word), two);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(word), _mm256_castsi256_si128(two));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(word + step),
                     _mm256_extracti128_si256(two, 1));
  }
}

/// Shuffles the bytes of `pairs` pairs of blocks.
template <ByteOrder order, int words, int bytes, class From, class To>
__attribute__((target("avx2"))) inline void shuffle_blocks(From from, To to,
                                                           std::ptrdiff_t pairs) {
  constexpr const auto& kTable = kShuffles<order, words, bytes>;
  for (std::ptrdiff_t i = 0; i < pairs; ++i) {
    __m256i before[words];
#pragma GCC unroll 4
    for (int k = 0; k < words; ++k) {
      before[k] = load_two<From::kStep>(from.word[k]);
      from.word[k] += 2 * From::kStep;
    }
#pragma GCC unroll 4
    for (int w = 0; w < words; ++w) {
      __m256i after = _mm256_setzero_si256();
#pragma GCC unroll 4
      for (int k = 0; k < words; ++k)
        if (kTable.any[w][k]) {
          const auto* picks = reinterpret_cast<const __m256i*>(kTable.at[w][k]);
          after = _mm256_or_si256(
              after, _mm256_shuffle_epi8(before[k], _mm256_load_si256(picks)));
        }
      store_two<To::kStep>(to.word[w], after);
      to.word[w] += 2 * To::kStep;
    }
  }
}
#endif

/// Calls `shuffle(first, pairs)` for pairs of blocks, of `pixels` each, that cover
/// `count` pixels: the last pair may begin within the one before. False if there are
/// fewer pixels than a pair has.
template <class Shuffle>
bool in_pairs(std::ptrdiff_t count, std::ptrdiff_t pixels, Shuffle&& shuffle) {
  const std::ptrdiff_t pair = 2 * pixels;
  if (count < pair) return false;
  shuffle(std::ptrdiff_t{0}, count / pair);
  if (count % pair != 0) shuffle(count - pair, std::ptrdiff_t{1});
  return true;
}

template <int channels, int bytes>
void split(const std::byte* from, std::ptrdiff_t count, std::byte* const* planes,
           CpuLevel level) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level >= CpuLevel::kAvx2 &&
      in_pairs(count, kWord / bytes, [&](std::ptrdiff_t first, std::ptrdiff_t pairs) {
        shuffle_blocks<ByteOrder::kSplit, channels, bytes>(
            in_a_row<channels>(from + first * channels * bytes),
            in_planes<channels>(planes, first * bytes), pairs);
      }))
    return;
#else
  (void)level;
#endif
  for (int c = 0; c < channels; ++c) {
    std::byte* const plane = planes[c];
    for (std::ptrdiff_t i = 0; i < count; ++i)
      std::memcpy(plane + i * bytes, from + (i * channels + c) * bytes, bytes);
  }
}

template <int channels, int bytes>
void merge(const std::byte* const* planes, std::ptrdiff_t count, std::byte* to,
           CpuLevel level) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level >= CpuLevel::kAvx2 &&
      in_pairs(count, kWord / bytes, [&](std::ptrdiff_t first, std::ptrdiff_t pairs) {
        shuffle_blocks<ByteOrder::kMerge, channels, bytes>(
            in_planes<channels>(planes, first * bytes),
            in_a_row<channels>(to + first * channels * bytes), pairs);
      }))
    return;
#else
  (void)level;
#endif
  for (int c = 0; c < channels; ++c) {
    const std::byte* const plane = planes[c];
    for (std::ptrdiff_t i = 0; i < count; ++i)
      std::memcpy(to + (i * channels + c) * bytes, plane + i * bytes, bytes);
  }
}

/// Pieces are of `words` elements of `bytes`.
template <int words, int bytes>
void reverse(const std::byte* from, std::ptrdiff_t count, std::byte* to,
             CpuLevel level) {
  constexpr int kPiece = words * bytes;
#if defined(__x86_64__) && defined(__GNUC__)
  if (level >= CpuLevel::kAvx2 &&
      in_pairs(count, kWord / bytes, [&](std::ptrdiff_t first, std::ptrdiff_t pairs) {
        shuffle_blocks<ByteOrder::kReverse, words, bytes>(
            backwards<words>(from + (count - first) * kPiece),
            in_a_row<words>(to + first * kPiece), pairs);
      }))
    return;
#else
  (void)level;
#endif
  for (std::ptrdiff_t i = 0; i < count; ++i)
    std::memcpy(to + i * kPiece, from + (count - 1 - i) * kPiece, kPiece);
}

/// Calls `use` with a size of elements that the compiler knows, or returns false.
template <class Use>
bool with_bytes(std::uint32_t bytes, Use&& use) {
  switch (bytes) {
    case 1:
      return use.template operator()<1>(), true;
    case 2:
      return use.template operator()<2>(), true;
    case 4:
      return use.template operator()<4>(), true;
    case 8:
      return use.template operator()<8>(), true;
    default:
      return false;
  }
}
template <class Use>
bool with_channels_and_bytes(std::int32_t channels, std::uint32_t bytes, Use&& use) {
  return with_bytes(bytes, [&]<int kBytes>() {
    switch (channels) {
      case 2:
        return use.template operator()<2, kBytes>();
      case 3:
        return use.template operator()<3, kBytes>();
      default:
        return use.template operator()<4, kBytes>();
    }
  });
}

}  // namespace detail

/// Takes `count` pixels apart: of `channels` elements, of `bytes` each.
inline void split_pixels(std::int32_t channels, std::uint32_t bytes,
                         const std::byte* from, std::ptrdiff_t count,
                         std::byte* const* planes, CpuLevel level = cpu_level()) {
  if (channels >= 2 && channels <= 4 &&
      detail::with_channels_and_bytes(
          channels, bytes, [=]<int kChannels, int kBytes>() {
            detail::split<kChannels, kBytes>(from, count, planes, level);
          }))
    return;
  for (std::int32_t c = 0; c < channels; ++c)
    for (std::ptrdiff_t i = 0; i < count; ++i)
      std::memcpy(planes[c] + i * bytes, from + (i * channels + c) * bytes, bytes);
}

/// Puts `count` pixels together.
inline void merge_pixels(std::int32_t channels, std::uint32_t bytes,
                         const std::byte* const* planes, std::ptrdiff_t count,
                         std::byte* to, CpuLevel level = cpu_level()) {
  if (channels >= 2 && channels <= 4 &&
      detail::with_channels_and_bytes(
          channels, bytes, [=]<int kChannels, int kBytes>() {
            detail::merge<kChannels, kBytes>(planes, count, to, level);
          }))
    return;
  for (std::int32_t c = 0; c < channels; ++c)
    for (std::ptrdiff_t i = 0; i < count; ++i)
      std::memcpy(to + (i * channels + c) * bytes, planes[c] + i * bytes, bytes);
}

/// Puts `count` pieces of `bytes` in the other order. They must not overlap `to`.
inline void reverse_pieces(std::size_t bytes, const std::byte* from,
                           std::ptrdiff_t count, std::byte* to,
                           CpuLevel level = cpu_level()) {
  switch (bytes) {
    case 1:
      return detail::reverse<1, 1>(from, count, to, level);
    case 2:
      return detail::reverse<1, 2>(from, count, to, level);
    case 3:
      return detail::reverse<3, 1>(from, count, to, level);
    case 4:
      return detail::reverse<1, 4>(from, count, to, level);
    case 6:
      return detail::reverse<3, 2>(from, count, to, level);
    case 8:
      return detail::reverse<1, 8>(from, count, to, level);
    case 12:
      return detail::reverse<3, 4>(from, count, to, level);
    case 16:
      return detail::reverse<1, 16>(from, count, to, level);
    case 24:
      return detail::reverse<3, 8>(from, count, to, level);
    default:
      const auto piece = static_cast<std::ptrdiff_t>(bytes);
      for (std::ptrdiff_t i = 0; i < count; ++i)
        std::memcpy(to + i * piece, from + (count - 1 - i) * piece, bytes);
  }
}

}  // namespace echobuf::transform
