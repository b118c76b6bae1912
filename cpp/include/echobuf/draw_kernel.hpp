#pragma once

#include "echobuf/device_copy.hpp"
#include "echobuf/permutation.hpp"
#include "echobuf/platform.hpp"

// Drawing a part of a pass on the device: one launch for all fields. A block has a tile
// of rows, or a piece of one large row. First its threads compute which records these
// are, then they copy, a 16-byte word of the target each. Compiled for the host too.

namespace echobuf {

/// One field of the records, and the leaf of the batch that it goes to.
struct DrawField {
  uint64_t leaf;    // address of the leaf's row 0
  uint64_t bytes;   // of a row
  uint64_t offset;  // in a slot
  uint64_t words;   // words_of(), summed up to and including this field
  bool scalar;      // one word, copied as one number
};

inline constexpr int kDrawFields = 32;  // in a launch; more take more launches
inline constexpr uint32_t kDrawThreads = 256;
inline constexpr uint32_t kDrawTile = 64;  // rows of a block at most

/// Everything that a launch is told, by value. lay_out() adds the second half.
struct DrawArguments {
  Permutation order;  // of the pass
  uint64_t slots;     // address of slot 0
  uint64_t capacity;  // slots
  uint64_t first;     // slot of the window's first record
  uint64_t stride;    // bytes from slot to slot, a multiple of 16
  uint64_t row;       // of the batch, for the part's first record
  uint32_t offset;    // of the part in the pass
  uint32_t count;     // records

  uint32_t tile = 0;    // rows of a block
  uint32_t pieces = 0;  // blocks for one tile
  uint64_t piece = 0;   // words of a tile that a block has
  int32_t fields = 0;
  DrawField field[kDrawFields] = {};
};

/// How many words a record has, as they are dealt out to threads.
ECHOBUF_HD inline uint64_t words_of(const DrawArguments& a) {
  return a.field[a.fields - 1].words;
}

/// First step of a block, `rows` being its own memory: which slots its rows are in.
ECHOBUF_HD inline void find_rows(const DrawArguments& a, uint32_t block,
                                 uint32_t thread, uint64_t* rows) {
  const uint32_t first = block / a.pieces * a.tile;
  if (thread >= a.tile || first + thread >= a.count) return;
  uint64_t slot = a.first + a.order(a.offset + first + thread);
  if (slot >= a.capacity) slot -= a.capacity;
  rows[thread] = a.slots + slot * a.stride;
}

/// Second step, when all threads have done the first.
ECHOBUF_HD inline void copy_rows(const DrawArguments& a, uint32_t block,
                                 uint32_t thread, const uint64_t* rows) {
  const uint32_t first = block / a.pieces * a.tile;
  const uint32_t left = a.count - first;
  const uint64_t words = words_of(a);
  const uint64_t all = words * (left < a.tile ? left : a.tile);
  const uint64_t begin = block % a.pieces * a.piece;
  const uint64_t end = begin + a.piece < all ? begin + a.piece : all;
  for (uint64_t at = begin + thread; at < end; at += kDrawThreads) {
    // Tiles of several rows are small; 64-bit divisions are slow.
    const uint32_t row =
        a.tile == 1 ? 0 : static_cast<uint32_t>(at) / static_cast<uint32_t>(words);
    const uint64_t word = at - row * words;
    int f = 0;
    while (word >= a.field[f].words) ++f;
    const DrawField& field = a.field[f];
    const uint64_t to = field.leaf + (a.row + first + row) * field.bytes;
    const uint64_t from = rows[row] + field.offset;
    if (field.scalar) {
      copy_scalar(to, from, field.bytes);
      continue;
    }
    const uint64_t before = f == 0 ? 0 : a.field[f - 1].words;
    copy_word(to, from, field.bytes, word - before);
  }
}

}  // namespace echobuf
