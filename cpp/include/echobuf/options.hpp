// The options of a buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "echobuf/leaf_options.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/ratio.hpp"
#include "echobuf/sizes.hpp"

namespace echobuf {

struct BorrowedSlots;

struct BufferOptions {
  std::vector<FieldShape> fields;   // of one record, in the order of the leaves
  std::vector<LeafOptions> leaves;  // of a batch; none: the fields as they are
  std::uint64_t batch_size = 1;     // records a draw; 1 if each is a whole batch
  std::uint64_t window = 1;         // records
  bool automatic = false;           // factor="auto"; else `factor`
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
  LengthOptions lengths;   // of records that differ in length, or are whole batches
  bool echoes = false;     // draws know their echo: for infos, and for operations

  // Passes leave records out where another one was put with a version that is higher by
  // more; negative: none expires.
  std::int64_t max_staleness = -1;

  /// Calls `visit` with the name and the value of each option that is a value: by these
  /// names python/echobuf/option_table.py has them.
  template <class Visit>
  void each(Visit&& visit) {
    visit("batch_size", batch_size);
    visit("window", window);
    visit("factor", factor);
    visit("max_factor", max_factor);
    visit("seed", seed);
    visit("epoch", epoch);
    visit("drop_last", drop_last);
    visit("prefetch", prefetch);
    visit("shared", shared);
    visit("idle", idle);
    visit("max_staleness", max_staleness);
    visit("payload_bytes", lengths.payload_bytes);
    visit("form", lengths.form);
    visit("pad_to", lengths.pad_to);
    visit("max_rows", lengths.max_rows);
    visit("pack_to", lengths.pack_to);
    visit("cut", lengths.cut);
    visit("examples", lengths.examples);
  }

  /// Returns the most examples of a batch, or of the whole batch that it is.
  std::uint64_t most_examples() const {
    return lengths.in_batches() ? lengths.examples : batch_size;
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

  /// Returns these, for draws that must not be ahead of what they depend on: what is
  /// put may let records of batches expire that have not been handed out.
  BufferOptions drawn_when_asked() const {
    BufferOptions options = *this;
    if (expires()) options.prefetch = 0;
    return options;
  }
};

}  // namespace echobuf
