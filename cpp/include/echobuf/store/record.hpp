// The layout of one example's fields in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/sizes.hpp"

namespace echobuf {

inline constexpr std::size_t kFieldAlignment = 16;  // one vector load
inline constexpr std::size_t kLeafAlignment = 64;   // JAX shares host memory from 64 up

/// One field of a record: `rows` rows of `row_bytes` each. A whole batch has a row for
/// each of its examples, and fills only the first rows if it is a short one.
struct Field {
  std::size_t offset;  // in the slot
  std::size_t row_bytes;
  std::size_t rows;

  std::size_t bytes() const { return row_bytes * rows; }
};

/// The layout of a record: each field at a 16-byte boundary, so that one copy moves a
/// run of slots and vector loads never straddle a field's start.
class RecordLayout {
 public:
  /// `examples`: of a record at most, if it is a whole batch; else 0.
  explicit RecordLayout(const std::vector<FieldShape>& shapes,
                        std::uint64_t examples = 0)
      : examples_(examples) {
    for (const FieldShape& shape : shapes) {
      fields_.push_back({stride_, shape.row_bytes, shape.rows});
      fills_lines_ = fills_lines_ && shape.row_bytes % kLeafAlignment == 0 &&
                     (shapes.size() <= kFewFields || shape.row_bytes >= kShortField);
      stride_ += round_up(size_product(shape.row_bytes, shape.rows), kFieldAlignment);
    }
    if (stride_ == 0) stride_ = kFieldAlignment;  // records of no bytes are counted too
  }

  const std::vector<Field>& fields() const { return fields_; }
  std::size_t stride() const { return stride_; }
  /// Returns whether a record is a whole batch: a batch that is drawn is one record,
  /// and counts its examples.
  bool in_batches() const { return examples_ > 0; }

  /// Returns whether each field is whole cache lines, which no other field shares. Not
  /// so if it has many short ones, which gain nothing past the caches.
  bool fills_lines() const { return fills_lines_; }

  /// Returns the bytes of a field of a record; of a whole batch of so many examples.
  std::size_t bytes(std::size_t field, std::size_t examples) const {
    return in_batches() ? examples * fields_[field].row_bytes : fields_[field].bytes();
  }
  /// Returns the bytes of a field of an example in a batch.
  std::size_t bytes_per_count(std::size_t field) const { return bytes(field, 1); }
  /// Returns the most examples of a batch of so many records.
  std::size_t most_count(std::size_t records) const {
    return in_batches() ? static_cast<std::size_t>(examples_) : records;
  }

 private:
  static constexpr std::size_t kFewFields = 16;
  static constexpr std::size_t kShortField = 192;

  std::vector<Field> fields_;
  std::size_t stride_ = 0;
  bool fills_lines_ = true;
  std::uint64_t examples_;
};

}  // namespace echobuf
