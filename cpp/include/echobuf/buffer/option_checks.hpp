// Checks of a buffer's options; they throw what names the option.
#pragma once

#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/store/borrowed_slots.hpp"

namespace echobuf {

namespace option_checks {

inline void demand(bool fulfilled, const std::string& what) {
  if (!fulfilled) throw std::invalid_argument("BufferOptions: " + what);
}

inline void check_schedule(const BufferOptions& options) {
  const Ratio& factor = options.factor;
  const bool automatic = options.automatic;
  demand(automatic || (factor.den > 0 && factor.num >= factor.den),
         "`factor` must be >= 1");
  demand(automatic || std::gcd(factor.num, factor.den) == 1,
         "`factor` must be in lowest terms: {5, 2}, not {10, 4}");
  demand(!automatic || options.max_factor >= 1, "`max_factor` must be >= 1");
  demand(options.window <= std::numeric_limits<std::int32_t>::max(),
         "`window` must be below 2^31");
  demand(options.window >= (automatic ? 1 : factor.ceil()),
         "`window` must be at least `factor`, and 1");
  const std::uint64_t largest = options.largest_batch();
  demand(options.batch_size >= 1 &&
             (options.lengths.pack_to > 0 || options.batch_size <= largest),
         "`batch_size` must be from 1 to " + std::to_string(largest) +
             " with this `window` and `factor`");
}

inline void check_leaves(const BufferOptions& options) {
  demand(options.echoes || !options.has_infos(),
         "`echoes` must be true where leaves are infos");
  demand(!options.has_infos() || options.lengths.pack_to == 0,
         "infos are not for `pack_to`: a row has several examples");
  for (const LeafOptions& leaf : options.leaves) {
    if (leaf.info != InfoLeaf::kNone) {
      demand(leaf.field == kNoField && !leaf.plan && !leaf.rows,
             "an info is made of no field");
      continue;
    }
    demand(leaf.field < options.fields.size(),
           "a leaf is made of a field that is not there");
    demand(!leaf.rows || options.lengths.any(),
           "a leaf is made of the rows of a field that is not in `lengths`");
  }
}

inline void check_slots(const BufferOptions& options) {
  const auto& borrowed = options.borrowed;
  const bool in_batches = options.lengths.in_batches();
  demand(!in_batches || (!options.shared && !borrowed),
         "`shared` and `borrowed` are not for whole batches");
  demand(!borrowed || !options.shared, "`shared` is not for slots that are `borrowed`");
  demand(!borrowed || borrowed->window.fields == options.lengths.fields.size(),
         "`borrowed` has another number of fields of any length");
  demand(!in_batches || options.batch_size == 1,
         "`batch_size` must be 1 if each record is a whole batch");
  for (const FieldShape& field : options.fields)
    demand(!in_batches || field.rows <= options.lengths.examples,
           "a field has more rows than a whole batch has `examples`");
}

inline void check_rows(const BufferOptions& options, const LeafOptions& leaf) {
  const RowsPlan& rows = *leaf.rows;
  bool there = false;
  for (const RaggedField& field : options.lengths.fields)
    there = there || (field.field == leaf.field && field.row_bytes == rows.row_bytes);
  demand(there && !leaf.plan,
         "`rows` of a leaf is for a field in `lengths`, whose rows it must have");
  demand(!rows.windowed() || (rows.length > 0 && options.lengths.pack_to == 0),
         "a window must have rows, and is not for `pack_to`");
  demand(rows.windowed() ? rows.pieces.size() <= 1 : !rows.pieces.empty(),
         "a window has one piece at most, and all rows have one at least");
}

inline void check_packing(const BufferOptions& options) {
  const LengthOptions& lengths = options.lengths;
  demand(lengths.fields.size() == options.fields.size(),
         "`pack_to` is for records all of whose fields are in `lengths`");
  demand(lengths.pack_to < (std::uint64_t{1} << 31) && lengths.max_rows == 0,
         "`pack_to` must be below 2^31, and has no `max_rows` beside it");
  for (const RaggedField& field : lengths.fields)
    demand(field.max_length > 0 && field.max_length <= lengths.pack_to,
           "with `pack_to` each `max_length` must be from 1 to it");
}

inline void check_lengths(const BufferOptions& options) {
  const LengthOptions& lengths = options.lengths;
  demand(!options.shared, "`lengths` is for records that are not `shared`");
  demand(!lengths.in_batches() || (lengths.max_rows == 0 && lengths.pack_to == 0),
         "`max_rows` and `pack_to` are not for whole batches");
  demand(options.window < (std::uint64_t{1} << 23),
         "`window` must be below 2^23 where records differ in length");
  demand(lengths.payload_bytes > 0 || lengths.bounded_bytes() > 0,
         "`lengths` must have `payload_bytes`, or a `max_length` for each field");
  const std::uint64_t segments =
      options.automatic ? AutoSchedule::kMaxSegments : options.factor.ceil();
  demand(lengths.payload_bytes == 0 || lengths.payload_bytes >= segments,
         "`payload_bytes` must be at least " + std::to_string(segments) +
             ", a byte for each segment of the window");
  demand(lengths.pad_to >= 1, "`pad_to` must be >= 1");
  if (lengths.pack_to > 0) check_packing(options);
  for (const LeafOptions& leaf : options.leaves)
    if (leaf.rows) check_rows(options, leaf);
  std::vector<bool> seen(options.fields.size(), false);
  for (const RaggedField& field : lengths.fields) {
    demand(field.field < options.fields.size() && field.row_bytes > 0,
           "`lengths` has a field that is not there, or rows of no bytes");
    demand(!seen[field.field], "`lengths` has a field twice");
    seen[field.field] = true;
    demand(field.pad.empty() || field.row_bytes % field.pad.size() == 0,
           "`pad` must be a whole part of a row");
  }
}

inline void check_expiry(const BufferOptions& options) {
  demand(options.lengths.pack_to == 0, "`max_staleness` is not for `pack_to`");
  for (const LeafOptions& leaf : options.leaves)
    demand(
        options.lengths.in_batches() || !leaf.plan || !leaf.plan->partner_operation(),
        "mixes with partners are not for `max_staleness`");
}

}  // namespace option_checks

/// Returns the options. Throws std::invalid_argument where a draw would wait for ever,
/// or worse.
inline BufferOptions checked(const BufferOptions& options) {
  option_checks::demand(!options.fields.empty(),
                        "`fields` is empty; a record has at least one");
  option_checks::check_schedule(options);
  option_checks::check_leaves(options);
  option_checks::check_slots(options);
  if (options.lengths.any()) option_checks::check_lengths(options);
  if (options.expires()) option_checks::check_expiry(options);
  return options;
}

}  // namespace echobuf
