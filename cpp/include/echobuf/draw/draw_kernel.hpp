#pragma once

#include "echobuf/draw/block_threads.hpp"
#include "echobuf/draw/device_copy.hpp"
#include "echobuf/draw/draw_layout.hpp"
#include "echobuf/platform.hpp"
#include "echobuf/schedule/partner.hpp"

// Drawing a batch on the device: one launch for all fields, whatever parts of passes it
// is made of. A block has a tile of rows, or a piece of one large row. First its
// threads compute which records these are, then they copy, a 16-byte word of the target
// each, several at once where words are whole. Compiled for the host too.

namespace echobuf {

/// Which of `count` parts a row of the batch is in.
template <class Parts>
ECHOBUF_HD inline const DrawPart& part_of(uint32_t row, const Parts& parts,
                                          uint32_t count) {
  uint32_t low = 0;
  for (uint32_t high = count; high - low > 1;) {
    const uint32_t middle = low + (high - low) / 2;
    if (parts[middle].row <= row)
      low = middle;
    else
      high = middle;
  }
  return parts[low];
}

/// Returns the slot of the record at place `place` of a pass, or of a list.
ECHOBUF_HD inline uint64_t slot_of(const DrawPart& part, uint32_t place,
                                   uint64_t stride) {
  if (part.is_listed())
    return part.slots +
           device::load<uint32_t>(part.first + uint64_t{place} * 4) * stride;
  uint64_t slot = part.first + part.order(place);
  if (slot >= part.capacity) slot -= part.capacity;
  return part.slots + slot * stride;
}

/// Returns the slot of the partner of the record at place `place` is, as operation
/// `mix` chooses it.
ECHOBUF_HD inline uint64_t partner_slot_of(const DrawPart& part, uint32_t place,
                                           uint64_t stride,
                                           const transform::DrawNumber& number,
                                           uint32_t mix) {
  if (part.partner != 0) return slot_of(part, place, stride) + part.partner * stride;
  return slot_of(part, partner_of(number, mix, place, part.order.size()), stride);
}

/// The part of the batch that a block has.
struct DrawPlace {
  uint32_t first;  // row, of those that are drawn
  uint32_t rows;
  uint32_t piece;

  template <class Layout>
  ECHOBUF_HD DrawPlace(const Layout& a, uint32_t block)
      : first(block / a.pieces * a.tile), piece(block % a.pieces) {
    const uint32_t left = a.count - first;
    rows = left < a.tile ? left : a.tile;
  }
};

/// First step of a block, `rows` being its own memory: which slots its rows are in, or
/// (`partners`) those of their partners.
template <bool partners = false, class Parts>
ECHOBUF_HD inline void find_rows(const DrawLayout& a, const Parts& parts,
                                 uint32_t count, uint32_t block, uint32_t thread,
                                 uint64_t* rows) {
  const DrawPlace here(a, block);
  for (uint32_t i = thread; i < here.rows; i += a.threads) {
    const uint32_t row = a.row + here.first + i;
    const DrawPart& part = part_of(row, parts, count);
    const uint32_t place = part.offset + (row - part.row);
    if constexpr (partners)
      rows[i] =
          partner_slot_of(part, place, a.stride, parts.number().of(row, false), a.mix);
    else
      rows[i] = slot_of(part, place, a.stride);
  }
}

/// The row, field and word that number `at` of the words of a tile is.
struct DealtWord {
  uint32_t row = 0;  // of the tile
  int field;
  uint64_t word;  // of the field

  template <class Layout>
  ECHOBUF_HD DealtWord(const Layout& a, const DrawKind& kind, uint64_t at) : word(at) {
    if (a.tile > 1) {  // and small
      row = static_cast<uint32_t>(
          uint64_t{static_cast<uint32_t>(at)} * kind.reciprocal >> 31);
      word = static_cast<uint32_t>(at) - row * static_cast<uint32_t>(kind.words);
    }
    field = kind.begin;
    while (word >= a.field[field].words) ++field;
    if (field != kind.begin) word -= a.field[field - 1].words;
  }
};

/// A word of a row: from where to where.
struct DrawMove {
  const DrawField* field;
  uint64_t to;    // of the row in the leaf
  uint64_t from;  // of the field in the slot
  uint64_t word;  // of the field

  /// That of number `at` of a tile whose first row is `first`.
  ECHOBUF_HD DrawMove(const DrawLayout& a, const DrawKind& kind, uint32_t first,
                      uint64_t at, const uint64_t* rows) {
    const DealtWord dealt(a, kind, at);
    field = &a.field[dealt.field];
    word = dealt.word;
    to = field->leaf + (uint64_t{a.row} + first + dealt.row) * field->bytes;
    from = rows[dealt.row] + field->offset;
  }
};

/// Copies whole words, from and to where `move_of` says for the number of each in its
/// tile. A thread asks for several before it waits for the first.
template <class Layout, class MoveOf>
ECHOBUF_HD inline void copy_whole(const Layout& a, const DrawPlace& here,
                                  uint32_t thread, const MoveOf& move_of) {
  const uint64_t threads = a.threads;
  const uint64_t begin = here.piece * a.whole.piece;
  const uint64_t all = a.whole.words * here.rows;
  const uint64_t end = begin + a.whole.piece < all ? begin + a.whole.piece : all;
  for (uint64_t at = begin + thread; at < end; at += kDrawAtOnce * threads) {
    uint64_t to[kDrawAtOnce] = {};
    uint64_t from[kDrawAtOnce] = {};
    Word words[kDrawAtOnce];
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < kDrawAtOnce; ++k) {
      const uint64_t next = at + k * threads;
      if (next >= end) break;
      const auto move = move_of(next);
      to[k] = move.to + move.word * 16;
      from[k] = move.from + move.word * 16;
    }
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < kDrawAtOnce; ++k)
      if (at + k * threads < end) words[k] = device::load_once<Word>(from[k]);
    ECHOBUF_UNROLL
    for (uint32_t k = 0; k < kDrawAtOnce; ++k)
      if (at + k * threads < end) device::store(to[k], words[k]);
  }
}

/// Copies numbers, and rows that begin or end within a word.
ECHOBUF_HD inline void copy_other(const DrawLayout& a, const DrawPlace& here,
                                  uint32_t thread, const uint64_t* rows) {
  const uint64_t begin = here.piece * a.other.piece;
  const uint64_t all = a.other.words * here.rows;
  const uint64_t end = begin + a.other.piece < all ? begin + a.other.piece : all;
  for (uint64_t at = begin + thread; at < end; at += a.threads) {
    const DrawMove move(a, a.other, here.first, at, rows);
    const uint64_t bytes = move.field->bytes;
    if (move.field->scalar)
      copy_scalar(move.to, move.from, bytes);
    else
      copy_word(move.to, move.from, bytes, move.word);
  }
}

/// Draws the rows of a block. `rows`: its own memory, kDrawTile of them.
template <bool partners = false, class Threads, class Parts>
ECHOBUF_HD inline void draw_block(const Threads& threads, const DrawLayout& a,
                                  const Parts& parts, uint32_t count, uint32_t block,
                                  uint64_t* rows) {
  threads.all([&](uint32_t thread) {
    find_rows<partners>(a, parts, count, block, thread, rows);
  });
  threads.last([&](uint32_t thread) {
    const DrawPlace here(a, block);
    copy_whole(a, here, thread,
               [&](uint64_t at) { return DrawMove(a, a.whole, here.first, at, rows); });
    copy_other(a, here, thread, rows);
  });
}

}  // namespace echobuf
