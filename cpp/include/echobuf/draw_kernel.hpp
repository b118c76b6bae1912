#pragma once

#include "echobuf/block_threads.hpp"
#include "echobuf/device_copy.hpp"
#include "echobuf/partner.hpp"
#include "echobuf/permutation.hpp"
#include "echobuf/platform.hpp"
#include "echobuf/transform/words.hpp"

// Drawing a batch on the device: one launch for all fields, whatever parts of passes it
// is made of. A block has a tile of rows, or a piece of one large row. First its
// threads compute which records these are, then they copy, a 16-byte word of the target
// each. The parts come by value, or from a plan in device memory, so that a captured
// launch draws another batch each time. Compiled for the host too.

namespace echobuf {

/// One field of the records, and the leaf of the batch that it goes to.
struct DrawField {
  uint64_t leaf;    // address of the leaf's row 0
  uint64_t bytes;   // of a row
  uint64_t offset;  // in a slot
  uint64_t words;   // words_of(), summed up to and including this field
  bool scalar;      // one word, copied as one number
};

/// A part of a batch: where its records are.
struct DrawPart {
  Permutation order;  // of the pass
  uint64_t slots;     // address of slot 0
  uint64_t capacity;  // slots
  uint64_t first;     // slot of the window's first record
  uint32_t row;       // of the batch, for the part's first record
  uint32_t offset;    // of the part in the pass
  uint32_t count;     // records
  uint32_t partner;   // slots from a record to its partner; 0: that is in the pass
};

inline constexpr int kDrawFields = 32;  // in a launch; more take more launches
inline constexpr uint32_t kDrawParts = 8;
inline constexpr uint32_t kDrawThreads = 256;
inline constexpr uint32_t kDrawTile = 64;  // rows of a block at most

/// Where the records go, by value. spread() adds the second half.
struct DrawLayout {
  uint64_t stride = 0;  // bytes from slot to slot, a multiple of 16
  uint32_t row = 0;     // of the batch: the first that is drawn
  uint32_t count = 0;   // rows
  int32_t fields = 0;

  uint32_t tile = 0;    // rows of a block
  uint32_t pieces = 0;  // blocks for one tile
  uint32_t mix = 0;     // of partners: the operation that chooses them
  uint64_t piece = 0;   // words of a tile that a block has
  DrawField field[kDrawFields] = {};
};

/// What chance knows a batch by.
struct BatchNumber {
  Philox4x32Key key{};  // of the epoch
  uint64_t draw = 0;    // of the epoch: that of row 0

  /// Of a row; `ragged`: of rows of one record.
  ECHOBUF_HD transform::DrawNumber of(uint32_t row, bool ragged) const {
    if (ragged) return {key, draw, row};
    return {key, draw + row, 0};
  }
};

/// Parts that follow each other, by value.
struct DrawParts {
  uint32_t first = 0;  // number of the first of them, in a plan
  uint32_t count = 0;
  BatchNumber batch;
  DrawPart part[kDrawParts];

  ECHOBUF_HD BatchNumber number() const { return batch; }
  ECHOBUF_HD const DrawPart& operator[](uint32_t i) const { return part[i]; }
};

// Host and device compilers must agree, and all devices take so much by value.
static_assert(sizeof(DrawPart) == 128 && sizeof(DrawField) == 40);
static_assert(sizeof(DrawLayout) + sizeof(DrawParts) <= 4096);

/// A plan: what the next batch is. In device memory, this and then its parts.
struct DrawPlan {
  uint32_t count;  // of the parts; 0: nothing is to be drawn
  uint32_t reserved;
  BatchNumber batch;

  ECHOBUF_HD static constexpr uint64_t bytes(uint64_t parts) {
    return sizeof(DrawPlan) + parts * sizeof(DrawPart);
  }
};

/// The parts of the plan at an address.
struct PlannedParts {
  uint64_t plan;

  ECHOBUF_HD uint32_t count() const { return device::see<DrawPlan>(plan).count; }
  ECHOBUF_HD BatchNumber number() const { return device::see<DrawPlan>(plan).batch; }
  ECHOBUF_HD const DrawPart& operator[](uint32_t i) const {
    return device::see<DrawPart>(plan + DrawPlan::bytes(i));
  }
};

/// Writes `parts` into the plan at `plan`, which has as many as come up to them.
ECHOBUF_HD inline void write_plan(const DrawParts& parts, uint64_t plan,
                                  uint32_t thread) {
  if (thread == 0)
    device::store(plan, DrawPlan{parts.first + parts.count, 0, parts.batch});
  if (thread < parts.count)
    device::store(plan + DrawPlan::bytes(parts.first + thread), parts[thread]);
}

/// How many words a record has, as they are dealt out to threads.
ECHOBUF_HD inline uint64_t words_of(const DrawLayout& a) {
  return a.field[a.fields - 1].words;
}

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

/// Where the record at place `place` of a pass is.
ECHOBUF_HD inline uint64_t slot_of(const DrawPart& part, uint32_t place,
                                   uint64_t stride) {
  uint64_t slot = part.first + part.order(place);
  if (slot >= part.capacity) slot -= part.capacity;
  return part.slots + slot * stride;
}

/// Where the partner of the record at place `place` is, as operation `mix` chooses it.
ECHOBUF_HD inline uint64_t partner_slot_of(const DrawPart& part, uint32_t place,
                                           uint64_t stride,
                                           const transform::DrawNumber& number,
                                           uint32_t mix) {
  if (part.partner != 0) return slot_of(part, place, stride) + part.partner * stride;
  return slot_of(part, partner_of(number, mix, place, part.order.size()), stride);
}

/// First step of a block, `rows` being its own memory: which slots its rows are in, or
/// (`partners`) those of their partners.
template <bool partners = false, class Parts>
ECHOBUF_HD inline void find_rows(const DrawLayout& a, const Parts& parts,
                                 uint32_t count, uint32_t block, uint32_t thread,
                                 uint64_t* rows) {
  const uint32_t first = block / a.pieces * a.tile;
  if (thread >= a.tile || first + thread >= a.count) return;
  const uint32_t row = a.row + first + thread;
  const DrawPart& part = part_of(row, parts, count);
  const uint32_t place = part.offset + (row - part.row);
  if constexpr (partners)
    rows[thread] =
        partner_slot_of(part, place, a.stride, parts.number().of(row, false), a.mix);
  else
    rows[thread] = slot_of(part, place, a.stride);
}

/// Second step, when all threads have done the first.
ECHOBUF_HD inline void copy_rows(const DrawLayout& a, uint32_t block, uint32_t thread,
                                 const uint64_t* rows) {
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
    const uint64_t to = field.leaf + (uint64_t{a.row} + first + row) * field.bytes;
    const uint64_t from = rows[row] + field.offset;
    if (field.scalar) {
      copy_scalar(to, from, field.bytes);
      continue;
    }
    const uint64_t before = f == 0 ? 0 : a.field[f - 1].words;
    copy_word(to, from, field.bytes, word - before);
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
  threads.last([&](uint32_t thread) { copy_rows(a, block, thread, rows); });
}

}  // namespace echobuf
