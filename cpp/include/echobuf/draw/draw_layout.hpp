#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/platform.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/words.hpp"

// The arguments of the draw kernels: which records are drawn, and where they go. The
// parts come by value, or from a plan in device memory, so that a captured launch draws
// another batch each time. Compiled for the host too.

namespace echobuf {

/// One field of the records, and the leaf of the batch that it goes to.
struct DrawField {
  uint64_t leaf;    // address of the leaf's row 0
  uint64_t bytes;   // of a row
  uint64_t offset;  // in a slot
  uint64_t words;   // words_of(), summed up to this one of its kind
  bool scalar;      // one word, copied as one number
};

/// A part of a batch: where its records are.
struct DrawPart {
  Permutation order;  // of the pass
  uint64_t slots;     // address of slot 0
  uint64_t capacity;  // slots; 0: those of the rows are listed
  uint64_t first;     // slot of the window's first record; or, where slots are listed,
                      // the address of row 0's, 4 bytes each
  uint32_t row;       // of the batch, for the part's first record
  uint32_t offset;    // of the part in the pass, or in the list
  uint32_t count;     // records
  uint32_t partner;   // slots from a record to its partner; 0: that is in the pass

  ECHOBUF_HD bool is_listed() const { return capacity == 0; }
};

inline constexpr int kDrawFields = 32;  // in a launch; more take more launches
inline constexpr uint32_t kDrawParts = 8;
inline constexpr uint32_t kDrawThreads = 256;  // of a block at most
inline constexpr uint32_t kDrawAtOnce = 4;     // whole words of a thread
inline constexpr uint32_t kDrawTile = 64;      // rows of a block at most

/// Fields that are copied the same way, and how their words are dealt out to threads.
struct DrawKind {
  uint64_t words = 0;  // of a row
  uint64_t piece = 0;  // words of a tile that a block has
  int32_t begin = 0;   // the first of the fields

  /// Makes a division by `words` a multiplication, where a tile has several rows:
  /// 2^31 / words, rounded up.
  uint32_t reciprocal = 0;
};

/// The targets of the records, by value. spread() adds the second half.
struct DrawLayout {
  uint64_t stride = 0;  // bytes from slot to slot, a multiple of 16
  uint32_t row = 0;     // of the batch: the first that is drawn
  uint32_t count = 0;   // rows
  uint32_t mix = 0;     // of partners: the operation that chooses them

  uint32_t tile = 0;     // rows of a block
  uint32_t pieces = 0;   // blocks for one tile
  uint32_t threads = 0;  // of a block
  DrawKind whole;        // whole words, aligned in leaf and slot
  DrawKind other;        // all other fields
  DrawField field[kDrawFields] = {};
};

/// The uses of records that the rows of a batch are, where draws know them: addresses
/// of those of row 0.
struct RowUses {
  uint64_t records = 0;  // of the epoch's fresh examples, 8 bytes each; 0: not known
  uint64_t echoes = 0;   // uses before, 4 bytes each
};

/// The numbers that key the random choices of a batch.
struct BatchNumber {
  Philox4x32Key key{};  // of the epoch
  uint64_t draw = 0;    // of the epoch: that of row 0
  RowUses uses;

  /// Of a row; `ragged`: of rows of one record.
  ECHOBUF_HD transform::DrawNumber of(uint32_t row, bool ragged) const {
    transform::DrawNumber number{key, ragged ? draw : draw + row, ragged ? row : 0};
    if (uses.records != 0) {
      number.record = device::load<uint64_t>(uses.records + uint64_t{row} * 8);
      number.echo = device::load<uint32_t>(uses.echoes + uint64_t{row} * 4);
    }
    return number;
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
static_assert(sizeof(BatchNumber) == 32 && sizeof(DrawPart) == 128 &&
              sizeof(DrawField) == 40);
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

}  // namespace echobuf
