// How much of rows a window, a segment and a record have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <variant>
#include <vector>

#include "echobuf/buffer/stats.hpp"
#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

/// The most bytes of a segment, and of a record; and the payload ring, which has room
/// for the window, the segment that is being filled, the record that shows that it is
/// full, and, from `wrap_from` on, the end of one that does not wrap around.
class PayloadMeasure {
 public:
  /// All is 0 where records have no rows. Throws std::bad_alloc.
  explicit PayloadMeasure(const BufferOptions& options) {
    if (!options.lengths.any()) return;
    const Sweep sweep = make_sweep(options, options.epoch);
    const std::uint64_t segments =
        std::visit([](const auto& s) { return s.schedule().segments(); }, sweep);
    const bool fractional = !options.automatic && options.factor.den != 1;
    const LengthOptions& lengths = options.lengths;
    if (lengths.payload_bytes > LengthOptions::kMostBytes) throw std::bad_alloc();
    share = lengths.share(segments);
    most = lengths.most_bytes(segments);
    const std::uint64_t records = ring_capacity(options);
    const std::uint64_t window =
        lengths.payload_bytes > 0
            ? lengths.payload_bytes + share + (fractional ? share / 2 : 0)
            : size_product(records, most);
    const std::uint64_t examples = std::max<std::uint64_t>(lengths.examples, 1);
    size = PayloadSize::around(window, most, records,
                               size_product(lengths.fields.size(), examples), edge);
    // As many units as a record takes at most: see Claims.
    wrap_from = size.units - (most + edge) / size.unit;
  }

  std::uint64_t share = 0;  // LengthOptions::kNoLimit: none
  std::uint64_t most = 0;
  std::uint64_t edge = 0;  // bytes of a record at most that are no rows
  PayloadSize size{0, 0};
  std::uint64_t wrap_from = 0;  // units
};

/// Says how full the payload ring is, and what is known of the rows.
inline void describe_payload(BufferStats& stats, const Claims& claims,
                             const PayloadMeasure& measure, const RowsCounts& counts,
                             std::size_t fields) {
  stats.payload_bytes = claims.used() * measure.size.unit;
  stats.payload_capacity = claims.units() * measure.size.unit;
  stats.mean_rows = counts.mean_rows() / static_cast<double>(fields);
  stats.padding_share = counts.padding_share();
}

/// The layout of the slots, which have no bytes of the fields of any length.
inline RecordLayout record_of(const BufferOptions& options) {
  std::vector<FieldShape> shapes = options.fields;
  for (const RaggedField& field : options.lengths.fields)
    shapes[field.field] = {0, static_cast<std::size_t>(options.lengths.examples)};
  return RecordLayout(shapes, options.lengths.examples);
}

}  // namespace echobuf
