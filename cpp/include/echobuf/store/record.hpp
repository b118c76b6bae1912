// The layout of one example's fields in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/sizes.hpp"

namespace echobuf {

inline constexpr std::size_t kFieldAlignment = 16;  // one vector load
inline constexpr std::size_t kLeafAlignment = 64;   // JAX shares host memory from 64 up

/// One field of a record. A field is `rows` rows of `row_bytes` each; records of a
/// ragged kind fill only their first rows (batch echoing: a short last batch).
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
  /// `ragged`: every record has a length, its number of rows, shared by all fields.
  RecordLayout(const std::vector<FieldShape>& shapes, bool ragged) : ragged_(ragged) {
    for (const FieldShape& shape : shapes) {
      fields_.push_back({stride_, shape.row_bytes, shape.rows});
      stride_ += round_up(size_product(shape.row_bytes, shape.rows), kFieldAlignment);
    }
    if (stride_ == 0) stride_ = kFieldAlignment;  // records of no bytes are counted too
  }

  const std::vector<Field>& fields() const { return fields_; }
  std::size_t stride() const { return stride_; }
  bool ragged() const { return ragged_; }

  /// Of one record in a batch; of one row, if records are ragged.
  std::size_t bytes_per_count(std::size_t field) const {
    return ragged_ ? fields_[field].row_bytes : fields_[field].bytes();
  }

 private:
  std::vector<Field> fields_;
  std::size_t stride_ = 0;
  bool ragged_;
};

}  // namespace echobuf
