#pragma once

#include "echobuf/draw/draw_layout.hpp"
#include "echobuf/platform.hpp"

// The arguments of the scatter kernel, which writes records that lie on the device into
// the window: a draw turned round. Compiled for the host too.

namespace echobuf {

/// One field of records that are put.
struct ScatterField {
  uint64_t from;   // address of the first record's
  int64_t step;    // bytes from record to record
  uint64_t to;     // bytes from the start of a slot, a multiple of 16
  uint64_t bytes;  // of one record's
  uint64_t words;  // 16-byte words of the target, summed up to this one of its kind
  uint32_t item;   // bytes that are loaded at once: a power of two
  uint32_t axes;   // along which items lie; 0: one behind another, in whole words
  uint32_t axis;   // the first of them
};

/// Items lie `stride` bytes apart.
struct ScatterAxis {
  uint64_t extent;
  int64_t stride;
};

inline constexpr int kScatterFields = 32;  // in a launch; more take more launches
inline constexpr int kScatterAxes = 66;    // of all fields: one array has at most 64

/// By value. spread() adds the second half of what it has in common with a draw.
struct ScatterLayout {
  uint64_t slots = 0;     // address of slot 0
  uint64_t stride = 0;    // bytes from slot to slot, a multiple of 16
  uint64_t capacity = 1;  // slots
  uint64_t first = 0;     // slot of the first record
  uint32_t count = 0;     // records

  uint32_t tile = 0;  // as in DrawLayout, of records
  uint32_t pieces = 0;
  uint32_t threads = 0;
  DrawKind whole;
  DrawKind other;
  ScatterField field[kScatterFields] = {};
  ScatterAxis axis[kScatterAxes] = {};
};

static_assert(sizeof(ScatterField) == 56 && sizeof(ScatterAxis) == 16);
static_assert(sizeof(ScatterLayout) <= 4096);

}  // namespace echobuf
