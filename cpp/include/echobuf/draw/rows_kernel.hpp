#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/platform.hpp"

// Drawing a batch of records that differ in length on the device: one launch for all
// leaves. A thread has 16-byte words of the batch, and looks up which records they are
// of. Compiled for the host too.

namespace echobuf {

/// The bytes of one record in a leaf: where they are, and up to where the leaf has
/// padding behind them.
struct RowsSpan {
  uint64_t begin;  // in the leaf
  uint64_t size;   // of the record
  uint64_t end;    // of the padding
};

/// Returns the span of record `i`; number leaf.records is what is behind the last.
ECHOBUF_HD inline RowsSpan span_of(const RowsLeaf& leaf, uint32_t i) {
  if (leaf.ends != 0) {
    const uint64_t begin = device::load<uint64_t>(leaf.ends + 8 * i) * leaf.row;
    if (i >= leaf.records) return {begin, 0, leaf.bytes};
    const uint64_t end = device::load<uint64_t>(leaf.ends + 8 * i + 8) * leaf.row;
    return {begin, end - begin, end};
  }
  const uint64_t begin = i * leaf.each;
  const uint64_t size = leaf.lengths == 0
                            ? leaf.each
                            : device::load<uint64_t>(leaf.lengths + 8 * i) * leaf.row;
  return {begin, size, begin + leaf.each};
}

/// Returns the record that has byte `at` of the leaf, or one of no bytes before it.
ECHOBUF_HD inline uint32_t record_at(const RowsLeaf& leaf, uint64_t at) {
  if (leaf.ends == 0) return static_cast<uint32_t>(at / leaf.each);
  const uint64_t row = at / leaf.row;
  uint32_t low = 0;
  for (uint32_t high = leaf.records + 1; high - low > 1;) {
    const uint32_t middle = low + (high - low) / 2;
    if (device::load<uint64_t>(leaf.ends + 8 * middle) <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}

template <class T>
ECHOBUF_HD inline void copy_grains(uint64_t to, uint64_t from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T))
    device::store(to + at, device::load<T>(from + at));
}

/// Copies `bytes` of one word, the `skip`-th and following of a record at `from`, which
/// is aligned to 16 bytes, and whose bytes up to the next such address may be read.
ECHOBUF_HD inline void copy_some(uint64_t to, uint64_t from, uint64_t skip,
                                 uint64_t bytes, uint32_t grain) {
  if (bytes == 16) {
    const auto shift = static_cast<uint32_t>(skip % 16);
    const Word first = device::load<Word>(from + skip - shift);
    if (shift == 0) return device::store(to, first);
    // The second word holds bytes of this record, too.
    const Word second = device::load<Word>(from + skip - shift + 16);
    return device::store(to, funnel(first, second, shift));
  }
  if (grain == 8) return copy_grains<uint64_t>(to, from + skip, bytes);
  if (grain == 4) return copy_grains<uint32_t>(to, from + skip, bytes);
  if (grain == 2) return copy_grains<uint16_t>(to, from + skip, bytes);
  copy_grains<uint8_t>(to, from + skip, bytes);
}

/// Returns byte `at` of a word.
ECHOBUF_HD inline uint8_t byte_of(const Word& word, uint64_t at) {
  return static_cast<uint8_t>((at < 8 ? word.low : word.high) >> (at % 8 * 8));
}

/// Pads `bytes` of one word.
ECHOBUF_HD inline void pad_some(uint64_t to, uint64_t bytes, const Word& pad) {
  if (bytes == 16) return device::store(to, pad);
  for (uint64_t at = 0; at < bytes; ++at)
    device::store(to + at, byte_of(pad, (to + at) % 16));
}

/// Draws word `index` of a leaf, counted from the aligned one that its first byte is
/// in.
ECHOBUF_HD inline void draw_rows_word(const RowsLeaf& leaf, uint64_t index) {
  const uint64_t lead = leaf.base % 16;
  const uint64_t last = lead + leaf.bytes;
  uint64_t at = index * 16 > lead ? index * 16 - lead : 0;
  const uint64_t stop = (index * 16 + 16 < last ? index * 16 + 16 : last) - lead;
  for (uint32_t i = record_at(leaf, at); at < stop; ++i) {
    const RowsSpan span = span_of(leaf, i);
    const uint64_t data = span.begin + span.size;
    if (at < data) {
      const uint64_t end = data < stop ? data : stop;
      const uint64_t from = device::load<uint64_t>(leaf.sources + 8 * i) + leaf.add;
      copy_some(leaf.base + at, from, at - span.begin, end - at, leaf.grain);
      at = end;
    }
    if (at < stop && at < span.end) {
      const uint64_t end = span.end < stop ? span.end : stop;
      pad_some(leaf.base + at, end - at, leaf.pad);
      at = end;
    }
  }
}

/// Draws the words of a block.
template <class Threads>
ECHOBUF_HD inline void draw_rows_block(const Threads& threads, const RowsMoves& moves,
                                       uint32_t block) {
  if (moves.live != 0 && device::load<uint64_t>(moves.live) == 0) return;
  threads.last([&](uint32_t thread) {
    const uint64_t begin = uint64_t{block} * kRowsAtOnce * kRowsThreads + thread;
    for (uint32_t k = 0; k < kRowsAtOnce; ++k) {
      uint64_t word = begin + uint64_t{k} * kRowsThreads;
      if (word >= moves.words) return;
      uint32_t leaf = 0;
      while (word >= moves.leaf[leaf].words) ++leaf;
      if (leaf > 0) word -= moves.leaf[leaf - 1].words;
      draw_rows_word(moves.leaf[leaf], word);
    }
  });
}

}  // namespace echobuf
