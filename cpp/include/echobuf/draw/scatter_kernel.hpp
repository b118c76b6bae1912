#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/draw/scatter_layout.hpp"
#include "echobuf/platform.hpp"

// Writing records into consecutive slots of the window, on the device: one launch for
// all fields. A thread has a 16-byte word of a slot; where the source is whole words it
// loads several before it waits for the first, else it gathers the word's items.
// Compiled for the host too.

namespace echobuf {

/// A word of a record: from where to where.
struct ScatterMove {
  const ScatterField* field;
  uint64_t from;  // of the record's field
  uint64_t to;    // of the field in the slot
  uint64_t word;  // of the field

  ECHOBUF_HD ScatterMove(const ScatterLayout& a, const DrawKind& kind, uint32_t first,
                         uint64_t at) {
    const DealtWord dealt(a, kind, at);
    field = &a.field[dealt.field];
    word = dealt.word;
    const uint64_t record = first + dealt.row;
    uint64_t slot = a.first + record;
    if (slot >= a.capacity) slot -= a.capacity;
    from = field->from + record * static_cast<uint64_t>(field->step);
    to = a.slots + slot * a.stride + field->to;
  }
};

/// Of a field whose rows lie somewhere: those along its last axis.
ECHOBUF_HD inline uint64_t scatter_row(const ScatterLayout& a, const ScatterMove& move,
                                       uint64_t row) {
  uint64_t at = move.from;
  ECHOBUF_KEEP_LOOP
  for (uint32_t i = move.field->axes - 1; i > 0; --i) {
    const ScatterAxis& axis = a.axis[move.field->axis + i - 1];
    const uint64_t rest = i > 1 ? row / axis.extent : 0;
    at += (row - rest * axis.extent) * static_cast<uint64_t>(axis.stride);
    row = rest;
  }
  return at;
}

/// Returns the bytes of an item as a number, or as two of 8 bytes.
ECHOBUF_HD inline Word load_item(uint64_t from, uint32_t bytes) {
  switch (bytes) {
    case 1:
      return {device::load<uint8_t>(from), 0};
    case 2:
      return {device::load<uint16_t>(from), 0};
    case 4:
      return {device::load<uint32_t>(from), 0};
    case 8:
      return {device::load<uint64_t>(from), 0};
    default:
      return device::load<Word>(from);
  }
}

/// Gathers the items of words, one after another. The last word of a field in a slot is
/// the field's own, also where its bytes end in it.
ECHOBUF_HD inline void scatter_other(const ScatterLayout& a, const DrawPlace& here,
                                     uint32_t thread) {
  const uint64_t begin = here.piece * a.other.piece;
  const uint64_t all = a.other.words * here.rows;
  const uint64_t end = begin + a.other.piece < all ? begin + a.other.piece : all;
  for (uint64_t at = begin + thread; at < end; at += a.threads) {
    const ScatterMove move(a, a.other, here.first, at);
    const ScatterField& field = *move.field;
    const uint32_t bytes = field.item;
    const ScatterAxis& last = a.axis[field.axis + field.axes - 1];
    const uint64_t left = field.bytes - move.word * 16;
    const uint64_t some = left < 16 ? left : 16;
    const uint64_t item = move.word * 16 / bytes;
    uint64_t row = item / last.extent;
    uint64_t column = item - row * last.extent;
    uint64_t from = scatter_row(a, move, row);
    Word word{0, 0};
    for (uint64_t i = 0; i < some; i += bytes) {
      if (column == last.extent) {
        column = 0;
        from = scatter_row(a, move, ++row);
      }
      const Word next =
          load_item(from + column++ * static_cast<uint64_t>(last.stride), bytes);
      if (i < 8) word.low |= next.low << (i * 8);
      if (i >= 8) word.high |= next.low << (i * 8 - 64);
      word.high |= next.high;
    }
    device::store(move.to + move.word * 16, word);
  }
}

/// Writes the records of a block.
template <class Threads>
ECHOBUF_HD inline void scatter_block(const Threads& threads, const ScatterLayout& a,
                                     uint32_t block) {
  threads.last([&](uint32_t thread) {
    const DrawPlace here(a, block);
    copy_whole(a, here, thread,
               [&](uint64_t at) { return ScatterMove(a, a.whole, here.first, at); });
    scatter_other(a, here, thread);
  });
}

}  // namespace echobuf
