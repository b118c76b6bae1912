#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/platform.hpp"

// The arguments of the kernel that draws records which differ in length: where the rows
// of each come from, and where they go. Compiled for the host too.

namespace echobuf {

/// A leaf of a batch: the rows of each record, one behind another or each padded to the
/// same length.
struct RowsLeaf {
  uint64_t base = 0;     // address of the leaf
  uint64_t bytes = 0;    // of it
  uint64_t sources = 0;  // address of the records' addresses; 0: only padding is drawn
  uint64_t add = 0;      // to each of them; bytes from the multiple of 16 before it on
                         // may be read
  uint64_t ends = 0;     // address of where each begins, in rows, and the last ends; or
  uint64_t each = 0;     // bytes that each record has in the leaf, its padding included
  uint64_t lengths = 0;  // of these the address of their rows; 0: no padding
  uint64_t words = 0;    // of the leaf, summed up to this one
  uint64_t row = 0;      // bytes of one
  uint32_t records = 0;
  uint32_t grain =
      1;       // bytes copied at once at the ends of records, which are multiples
  Word pad{};  // of the padding: a byte goes to addresses of its number modulo 16
};

inline constexpr int kRowsLeaves = 32;         // in a launch; more take more launches
inline constexpr uint32_t kRowsThreads = 256;  // of a block
inline constexpr uint32_t kRowsAtOnce = 4;     // words of a thread

struct RowsMoves {
  uint64_t live = 0;   // address of what is 0 where nothing is to be drawn; or 0
  uint64_t words = 0;  // of all leaves
  RowsLeaf leaf[kRowsLeaves] = {};
};

static_assert(sizeof(RowsLeaf) == 96);
static_assert(sizeof(RowsMoves) <= 4096);

/// A leaf of rows that whole records are packed into.
struct PlacedLeaf {
  uint64_t offset = 0;  // in a block of such rows
  uint64_t pitch = 0;   // bytes from row to row, a multiple of 16
  uint64_t row = 0;     // bytes of one value
  uint32_t field = 0;   // of the records'
  uint32_t grain = 1;   // as above
};

/// Records, each to be copied to a place of its own.
struct PlaceMoves {
  uint64_t records = 0;     // address of the first: see PlacedRecord
  uint64_t segments = 0;    // in a block: int32 for each value
  uint64_t positions = 0;   // the same
  uint64_t mark_pitch = 0;  // of both, bytes from row to row, a multiple of 16
  uint32_t fields = 0;      // of a record
  uint32_t pieces = 0;      // blocks of threads for a record
  uint32_t leaves = 0;
  uint32_t marks = 0;  // whether segments and positions are written
  PlacedLeaf leaf[kRowsLeaves] = {};
};

/// A record in the table: this, and then the address of the rows of each field.
struct PlacedRecord {
  uint64_t block;    // address
  uint64_t row;      // of the block
  uint64_t first;    // value of the row
  uint64_t length;   // values
  uint64_t segment;  // what its values are marked with
};

inline constexpr uint32_t kPlacedPiece = 1024;  // values: of whole words for any row

static_assert(sizeof(PlacedLeaf) == 32 && sizeof(PlacedRecord) == 40);
static_assert(sizeof(PlaceMoves) <= 4096);

/// Returns how many words of a leaf threads have.
ECHOBUF_HD constexpr uint64_t rows_words(uint64_t base, uint64_t bytes) {
  return bytes == 0 ? 0 : (base % 16 + bytes + 15) / 16;
}

}  // namespace echobuf
