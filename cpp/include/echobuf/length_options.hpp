// The options of records that differ in length: fields of any number of rows, and whole
// batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "echobuf/sizes.hpp"

namespace echobuf {

/// A field of any number of rows.
struct RaggedField {
  std::size_t field;  // of the record
  std::size_t row_bytes;
  std::uint64_t max_length = 0;     // rows of one example; 0: as many as a share has
  std::vector<std::byte> pad = {};  // one row; none: zeros

  bool operator==(const RaggedField&) const = default;
};

struct LengthOptions {
  enum class Form { kPacked, kPadded };

  /// More than any memory: sums of a few of them do not overflow.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  std::vector<RaggedField> fields;  // none: all records are of one size
  std::uint64_t payload_bytes = 0;  // of their rows in the window; 0: no limit
  Form form = Form::kPacked;
  std::uint64_t pad_to = 1;    // what the rows of a batch are rounded up to
  std::uint64_t max_rows = 0;  // of a batch, in place of a number of records; 0: none
  std::uint64_t pack_to = 0;   // values of a row that whole examples are packed into: a
                               // batch is `batch_size` of such rows; 0: none
  bool cut = false;            // longer examples are cut to `pack_to`
  // Of a record at most, where each is a whole batch: put with any number of examples
  // up to this, and drawn as it is. 0: each record is an example.
  std::uint64_t examples = 0;

  /// Returns whether fields have any number of rows.
  bool any() const { return !fields.empty(); }
  /// Returns whether each record is a whole batch.
  bool in_batches() const { return examples > 0; }

  /// Packs whole examples into rows of `row_length` values; 0: does not.
  void pack_into(std::uint64_t row_length, bool cuts_longer) {
    pack_to = row_length;
    cut = cuts_longer;
  }
  bool packs() const { return pack_to > 0; }
  /// Returns the values of a row that examples are packed into; 0 without such rows.
  std::uint64_t row_length() const { return pack_to; }

  /// The bytes of a record at most, if `max_length` bounds all of its fields; else 0.
  /// Throws std::bad_alloc where they are more than any memory.
  std::uint64_t bounded_bytes() const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : fields) {
      if (field.max_length == 0) return 0;
      bytes += size_product(size_product(field.max_length, field.row_bytes),
                            std::max<std::uint64_t>(examples, 1));
      if (bytes > kMostBytes) throw std::bad_alloc();
    }
    return bytes;
  }

  /// The most bytes of a segment, of `segments` in the window.
  std::uint64_t share(std::uint64_t segments) const {
    return payload_bytes > 0 ? payload_bytes / segments : kNoLimit;
  }
  /// The most bytes of a record.
  std::uint64_t most_bytes(std::uint64_t segments) const {
    const std::uint64_t bounded = bounded_bytes();
    return bounded > 0 ? std::min(bounded, share(segments)) : share(segments);
  }
};

}  // namespace echobuf
