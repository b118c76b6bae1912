#pragma once

#include "echobuf/draw/device_copy.hpp"
#include "echobuf/transform/image.hpp"
#include "echobuf/transform/words.hpp"

// Examples that a table in device memory names, since they differ in length: where the
// rows of each are, and where what is made of them goes. Compiled for the host too.

namespace echobuf::transform {

/// An entry of the table.
struct StageExample {
  uint64_t source;  // address of its first row
  uint64_t target;  // address in the leaf
  uint64_t draw;    // of the epoch
  uint32_t first;   // the number of its first piece among those of all examples
  uint32_t row;     // 0, or its number in the whole batch that is drawn
  uint64_t rows;    // of it
  uint64_t
      record;     // of the epoch's fresh examples, where draws know their uses; else 0
  uint64_t echo;  // uses of the record before
};
static_assert(sizeof(StageExample) == 56);

/// The table of a launch.
struct StageExamples {
  uint64_t table = 0;       // address; 0: examples are found in the parts of a batch
  uint64_t source_row = 0;  // bytes of a row
  uint64_t target_row = 0;
  uint32_t count = 0;
  uint32_t piece = 0;         // rows that are made together; 0: examples are whole
  uint32_t row_elements = 0;  // random numbers of a row, where there are pieces

  ECHOBUF_HD const StageExample& operator[](uint32_t i) const {
    return device::see<StageExample>(table + uint64_t{i} * sizeof(StageExample));
  }

  /// Returns the example that has a piece: the last that begins with it or before, as
  /// those of no rows have none.
  ECHOBUF_HD uint32_t example_of(uint32_t number) const {
    uint32_t low = 0;
    for (uint32_t high = count; high - low > 1;) {
      const uint32_t middle = low + (high - low) / 2;
      if ((*this)[middle].first <= number)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

/// One piece of an example, or all of it: what one row of a launch makes.
class StagePiece {
 public:
  ECHOBUF_HD StagePiece(const StageExamples& examples, uint32_t number)
      : examples_(examples),
        example_(examples[examples.piece == 0 ? number : examples.example_of(number)]),
        row_(examples.piece == 0 ? 0 : (number - example_.first) * examples.piece) {}

  ECHOBUF_HD uint64_t source() const {
    return example_.source + row_ * examples_.source_row;
  }
  ECHOBUF_HD uint64_t target() const {
    return example_.target + row_ * examples_.target_row;
  }
  /// The rows that are left, of as many as a piece has at most.
  ECHOBUF_HD uint32_t rows() const {
    const uint64_t left = example_.rows - row_;
    return left < examples_.piece ? static_cast<uint32_t>(left) : examples_.piece;
  }
  /// What keys its random choices; `key`: of the epoch.
  ECHOBUF_HD DrawNumber number(const Philox4x32Key& key) const {
    DrawNumber number{key, example_.draw, example_.row};
    number.record = example_.record;
    number.echo = static_cast<uint32_t>(example_.echo);
    if (examples_.piece == 0) return number;
    number.first_element = static_cast<uint32_t>(row_) * examples_.row_elements;
    number.first_row = counted(row_);
    number.rows = counted(example_.rows);
    return number;
  }

 private:
  /// Operations count rows in int32.
  ECHOBUF_HD static uint32_t counted(uint64_t rows) {
    constexpr uint32_t kMost = 0x7FFFFFFF;
    return rows < kMost ? static_cast<uint32_t>(rows) : kMost;
  }

  const StageExamples& examples_;
  const StageExample example_;
  const uint64_t row_;
};

}  // namespace echobuf::transform
