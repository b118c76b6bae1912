// The options of a buffer, and the ways in which its calls can end.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "echobuf/buffer/length_options.hpp"
#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/fixed_schedule.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

struct BufferOptions {
  std::vector<RecordLayout::Shape> fields;  // of one record, in the order of the leaves
  std::vector<LeafOptions> leaves;          // of a batch; none: the fields as they are
  bool ragged = false;                      // a record is a whole batch, with a length
  std::uint64_t batch_size = 1;             // records a draw; 1 if ragged
  std::uint64_t window = 1;                 // records
  bool automatic = false;                   // factor="auto"; else `factor`
  Ratio factor{1, 1};
  std::uint32_t max_factor = 8;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool drop_last = false;
  std::uint32_t prefetch = 0;  // batches that a thread assembles ahead
  bool shared = false;         // the slots lie where other processes can write them
  std::shared_ptr<const BorrowedSlots> borrowed =
      nullptr;             // the slots are another process's
  std::uint32_t idle = 2;  // blocks of batch memory kept for the batches to come
  LengthOptions lengths;   // of records that differ in length
  bool echoes = false;     // draws know their echo: for infos, and for operations

  // Passes leave records out where another one was put with a version that is higher by
  // more; negative: none expires.
  std::int64_t max_staleness = -1;

  /// Returns the most examples of a batch: with `ragged`, of its only record.
  std::uint64_t most_examples() const {
    return lengths.examples > 0 ? lengths.examples : batch_size;
  }

  /// Returns whether a leaf of batches is an info.
  bool has_infos() const {
    for (const LeafOptions& leaf : leaves)
      if (leaf.info != InfoLeaf::kNone) return true;
    return false;
  }

  /// Returns whether passes leave out records that have expired.
  bool expires() const { return max_staleness >= 0; }

  /// Returns whether the versions that records are put with are asked for.
  bool keeps_versions() const {
    if (expires()) return true;
    for (const LeafOptions& leaf : leaves)
      if (leaf.info == InfoLeaf::kVersion) return true;
    return false;
  }

  /// Returns the largest `batch_size` that is allowed.
  std::uint64_t largest_batch() const {
    if (automatic || factor.den == 1) return window;
    return factor.num / factor.den * (window / factor.ceil());
  }

  /// Throws std::invalid_argument where a draw would wait for ever, or worse.
  BufferOptions checked() const {
    const auto demand = [](bool fulfilled, const std::string& what) {
      if (!fulfilled) throw std::invalid_argument("BufferOptions: " + what);
    };
    demand(!fields.empty(), "`fields` is empty; a record has at least one");
    demand(automatic || (factor.den > 0 && factor.num >= factor.den),
           "`factor` must be >= 1");
    demand(automatic || std::gcd(factor.num, factor.den) == 1,
           "`factor` must be in lowest terms: {5, 2}, not {10, 4}");
    demand(!automatic || max_factor >= 1, "`max_factor` must be >= 1");
    demand(window <= std::numeric_limits<std::int32_t>::max(),
           "`window` must be below 2^31");
    demand(window >= (automatic ? 1 : factor.ceil()),
           "`window` must be at least `factor`, and 1");
    demand(batch_size >= 1 && (lengths.pack_to > 0 || batch_size <= largest_batch()),
           "`batch_size` must be from 1 to " + std::to_string(largest_batch()) +
               " with this `window` and `factor`");
    demand(echoes || !has_infos(), "`echoes` must be true where leaves are infos");
    demand(!has_infos() || lengths.pack_to == 0,
           "infos are not for `pack_to`: a row has several examples");
    for (const LeafOptions& leaf : leaves) {
      if (leaf.info != InfoLeaf::kNone) {
        demand(leaf.field == kNoField && !leaf.plan && !leaf.rows,
               "an info is made of no field");
        continue;
      }
      demand(leaf.field < fields.size(), "a leaf is made of a field that is not there");
      demand(!leaf.rows || lengths.any(),
             "a leaf is made of the rows of a field that is not in `lengths`");
    }
    demand(!shared || !ragged, "`shared` is for records that are not ragged");
    demand(!borrowed || (!ragged && !shared),
           "`borrowed` is for records that are not ragged");
    demand(!borrowed || borrowed->window.fields == lengths.fields.size(),
           "`borrowed` has another number of fields of any length");
    demand(!ragged || batch_size == 1,
           "`batch_size` must be 1 if records are ragged: each is a batch");
    if (lengths.any()) check_lengths(demand);
    if (expires()) check_expiry(demand);
    return *this;
  }

  /// Returns these, for draws that must not be ahead of what they depend on: what is
  /// put may let records of batches expire that have not been handed out.
  BufferOptions drawn_when_asked() const {
    BufferOptions options = *this;
    if (expires()) options.prefetch = 0;
    return options;
  }

 private:
  template <class Demand>
  void check_expiry(const Demand& demand) const {
    demand(lengths.pack_to == 0, "`max_staleness` is not for `pack_to`");
    for (const LeafOptions& leaf : leaves)
      demand(ragged || !leaf.plan || !leaf.plan->partner_operation(),
             "mixes with partners are not for `max_staleness`");
  }
  template <class Demand>
  void check_lengths(const Demand& demand) const {
    demand(!shared, "`lengths` is for records that are not `shared`");
    demand(
        ragged == (lengths.examples > 0),
        "`examples` of `lengths` is at least 1 where records are whole batches, else "
        "0");
    demand(!ragged || (lengths.max_rows == 0 && lengths.pack_to == 0),
           "`max_rows` and `pack_to` are not for whole batches");
    demand(window < (std::uint64_t{1} << 23),
           "`window` must be below 2^23 where records differ in length");
    demand(lengths.payload_bytes > 0 || lengths.bounded_bytes() > 0,
           "`lengths` must have `payload_bytes`, or a `max_length` for each field");
    const std::uint64_t segments =
        automatic ? AutoSchedule::kMaxSegments : factor.ceil();
    demand(lengths.payload_bytes == 0 || lengths.payload_bytes >= segments,
           "`payload_bytes` must be at least " + std::to_string(segments) +
               ", a byte for each segment of the window");
    demand(lengths.pad_to >= 1, "`pad_to` must be >= 1");
    if (lengths.pack_to > 0) {
      demand(lengths.fields.size() == fields.size(),
             "`pack_to` is for records all of whose fields are in `lengths`");
      demand(lengths.pack_to < (std::uint64_t{1} << 31) && lengths.max_rows == 0,
             "`pack_to` must be below 2^31, and has no `max_rows` beside it");
      for (const RaggedField& field : lengths.fields)
        demand(field.max_length > 0 && field.max_length <= lengths.pack_to,
               "with `pack_to` each `max_length` must be from 1 to it");
    }
    std::vector<bool> seen(fields.size(), false);
    for (const LeafOptions& leaf : leaves)
      if (leaf.rows) check_rows(leaf, demand);
    for (const RaggedField& field : lengths.fields) {
      demand(field.field < fields.size() && field.row_bytes > 0,
             "`lengths` has a field that is not there, or rows of no bytes");
      demand(!seen[field.field], "`lengths` has a field twice");
      seen[field.field] = true;
      demand(field.pad.empty() || field.row_bytes % field.pad.size() == 0,
             "`pad` must be a whole part of a row");
    }
  }
  template <class Demand>
  void check_rows(const LeafOptions& leaf, const Demand& demand) const {
    const RowsPlan& rows = *leaf.rows;
    bool there = false;
    for (const RaggedField& field : lengths.fields)
      there = there || (field.field == leaf.field && field.row_bytes == rows.row_bytes);
    demand(there && !leaf.plan,
           "`rows` of a leaf is for a field in `lengths`, whose rows it must have");
    demand(!rows.windowed() || (rows.length > 0 && lengths.pack_to == 0),
           "a window must have rows, and is not for `pack_to`");
    demand(rows.windowed() ? rows.pieces.size() <= 1 : !rows.pieces.empty(),
           "a window has one piece at most, and all rows have one at least");
  }
};

enum class Status : int {
  kOk = 0,
  kTimeout,      // nothing happened (a put: the rest did not)
  kClosed,       // a put after close(), or any call after shut_down()
  kFailed,       // upstream failed: fail() was called
  kFinished,     // everything has been served
  kShort,        // upstream ended otherwise than the loaded state says
  kInterrupted,  // the caller's poll said stop
  kNoMemory,     // no memory for a batch; nothing is lost, the next call tries again
  kBroken,       // the device is lost; nothing more is served
  kReentrant,    // called from the poll of a draw, which it would have to wait for
  kTwice,        // this capture has a draw already, which would draw the same batch
  kCapturing,    // a call that cannot be captured, on a stream that is
  kResize,       // the next batch is of another size than the caller's memory
};

/// Asked between chunks of long copies; false stops the call.
struct Poll {
  virtual ~Poll() = default;
  virtual bool go_on() = 0;
};

}  // namespace echobuf
