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
  uint64_t sources = 0;  // address of the records' addresses
  uint64_t add = 0;      // to each of them; then they are multiples of 16
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

/// Returns how many words of a leaf threads have.
ECHOBUF_HD constexpr uint64_t rows_words(uint64_t base, uint64_t bytes) {
  return bytes == 0 ? 0 : (base % 16 + bytes + 15) / 16;
}

}  // namespace echobuf
