#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/platform.hpp"

// Drawing a batch of records that differ in length on the device: one launch for all
// leaves. A thread has 16-byte words of the batch, and looks up which records they are
// of. And packing records into rows of one length: a block of threads for each record,
// or for a piece of it. Compiled for the host too.

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
    const uint64_t begin =
        device::load<uint64_t>(leaf.ends + uint64_t{8} * i) * leaf.row;
    if (i >= leaf.records) return {begin, 0, leaf.bytes};
    const uint64_t end =
        device::load<uint64_t>(leaf.ends + uint64_t{8} * i + 8) * leaf.row;
    return {begin, end - begin, end};
  }
  const uint64_t begin = i * leaf.each;
  const uint64_t size =
      leaf.lengths == 0
          ? leaf.each
          : device::load<uint64_t>(leaf.lengths + uint64_t{8} * i) * leaf.row;
  return {begin, size, begin + leaf.each};
}

/// Returns the record that has byte `at` of the leaf, or one of no bytes before it.
ECHOBUF_HD inline uint32_t record_at(const RowsLeaf& leaf, uint64_t at) {
  if (leaf.ends == 0) return static_cast<uint32_t>(at / leaf.each);
  const uint64_t row = at / leaf.row;
  uint32_t low = 0;
  for (uint32_t high = leaf.records + 1; high - low > 1;) {
    const uint32_t middle = low + (high - low) / 2;
    if (device::load<uint64_t>(leaf.ends + uint64_t{8} * middle) <= row)
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

/// Copies `bytes` of one word, the `skip`-th and following of a record of `size` bytes
/// at `from`, which is aligned to 16 bytes.
ECHOBUF_HD inline void copy_some(uint64_t to, uint64_t from, uint64_t size,
                                 uint64_t skip, uint64_t bytes, uint32_t grain) {
  const auto shift = static_cast<uint32_t>(skip % 16);
  const uint64_t begin = skip - shift;
  if (bytes == 16 && shift == 0)
    return device::store(to, device::load<Word>(from + begin));
  if (bytes == 16 && begin + 32 <= size) {
    const Word first = device::load<Word>(from + begin);
    const Word second = device::load<Word>(from + begin + 16);
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
      if (leaf.sources != 0) {
        const uint64_t from =
            device::load<uint64_t>(leaf.sources + uint64_t{8} * i) + leaf.add;
        const uint64_t skip = from % 16;  // a window begins anywhere in a record
        copy_some(leaf.base + at, from - skip, skip + span.size, skip + at - span.begin,
                  end - at, leaf.grain);
      }
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

/// Copies word `index` of `bytes` that begin at `from`, an address aligned to 16 bytes,
/// to anywhere.
ECHOBUF_HD inline void copy_record_word(uint64_t to, uint64_t from, uint64_t bytes,
                                        uint64_t index, uint32_t grain) {
  const uint64_t lead = to % 16;
  const uint64_t begin = index * 16 > lead ? index * 16 - lead : 0;
  const uint64_t last = lead + bytes;
  const uint64_t end = (index * 16 + 16 < last ? index * 16 + 16 : last) - lead;
  copy_some(to + begin, from, bytes, begin, end - begin, grain);
}

/// Copies a piece of a record to its places, and marks these.
template <class Threads>
ECHOBUF_HD inline void place_rows_block(const Threads& threads, const PlaceMoves& moves,
                                        uint32_t block) {
  const uint64_t at =
      moves.records + uint64_t{block / moves.pieces} *
                          (sizeof(PlacedRecord) + uint64_t{8} * moves.fields);
  const PlacedRecord record = device::see<PlacedRecord>(at);
  const uint64_t begin = uint64_t{block % moves.pieces} * kPlacedPiece;
  if (begin >= record.length) return;
  const uint64_t left = record.length - begin;
  const uint64_t count = left < kPlacedPiece ? left : kPlacedPiece;
  threads.last([&](uint32_t thread) {
    for (uint32_t i = 0; i < moves.leaves; ++i) {
      const PlacedLeaf& leaf = moves.leaf[i];
      const uint64_t from =
          device::load<uint64_t>(at + sizeof(PlacedRecord) + uint64_t{8} * leaf.field) +
          begin * leaf.row;
      const uint64_t to = record.block + leaf.offset + record.row * leaf.pitch +
                          (record.first + begin) * leaf.row;
      const uint64_t bytes = count * leaf.row;
      const uint64_t words = rows_words(to, bytes);
      for (uint64_t word = thread; word < words; word += kRowsThreads)
        copy_record_word(to, from, bytes, word, leaf.grain);
    }
    if (moves.marks == 0) return;
    for (uint64_t i = thread; i < count; i += kRowsThreads) {
      const uint64_t mark =
          record.block + record.row * moves.mark_pitch + 4 * (record.first + begin + i);
      device::store(mark + moves.segments, static_cast<int32_t>(record.segment));
      device::store(mark + moves.positions, static_cast<int32_t>(begin + i));
    }
  });
}

}  // namespace echobuf
