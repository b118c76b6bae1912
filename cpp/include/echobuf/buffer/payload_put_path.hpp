// The put path of records that differ in length: any number of threads put examples
// into slots, and their rows into the payload.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "echobuf/buffer/argument_checks.hpp"
#include "echobuf/buffer/clocks.hpp"
#include "echobuf/buffer/length_options.hpp"
#include "echobuf/buffer/options.hpp"
#include "echobuf/buffer/room_wait.hpp"
#include "echobuf/store/payload_claims.hpp"

namespace echobuf {

/// `Ring`, `Store`: of the window, or of its staging.
template <class Ring, class Store>
class PayloadPutPath {
 public:
  PayloadPutPath(Ring& ring, Store& store, std::uint64_t most_bytes)
      : ring_(ring), store_(store), most_bytes_(most_bytes) {
    for (const RaggedField& field : store.fields()) {
      const std::uint64_t fit = most_bytes / field.row_bytes;
      most_rows_.push_back(field.max_length > 0 ? std::min(field.max_length, fit)
                                                : fit);
    }
  }

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. Throws
  /// std::invalid_argument, before anything is put, for examples that are larger than a
  /// segment's share of the payload, or than `max_length` says.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t /*rows*/, std::uint64_t& done, WaitLimit wait_limit,
             Poll* poll) {
    if (done == 0) check(leaves, n);
    if (n == 0 && is_over(term)) return Status::kClosed;
    PayloadClaims& claims = ring_.claims();
    while (done < n) {
      const std::uint64_t want = std::min(kChunk, n - done);
      std::uint64_t units[kChunk];
      store_.units_of(leaves, done, want, units);
      store_.note_largest(*std::max_element(units, units + want));
      const auto units_of = [&](std::uint64_t i) { return units[i]; };
      const auto claim = claims.claim(want, units_of, term);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status = wait_for_room<WaitClock::Guard>(
            ring_, clock_.waits(), wait_limit, [&] { return is_over(term); },
            [&] { return claims.has_room(units[0]); });
        if (status != Status::kOk) return status;
        continue;
      }
      write(claim, leaves, done, units);
      clock_.arrived(claim.first + (n - done));  // with all of this put
      ring_.commit(claim.first, claim.count);
      done += claim.count;
      if (poll && done < n && !poll->go_on()) return Status::kInterrupted;
    }
    return Status::kOk;
  }

  /// Nobody else writes payload.
  static constexpr std::uint64_t outstanding() { return 0; }

  UpstreamClock& clock() { return clock_; }

 private:
  /// So many records are claimed at once: a draw need not wait for all of a large put.
  static constexpr std::uint64_t kChunk = 64;
  static constexpr std::uint64_t kNone = 0;

  bool is_over(std::uint64_t term) const {
    return ring_.closed() || ring_.term() != term;
  }

  void write(const PayloadClaims::Claim& claim, const SourceLeaf* leaves,
             std::uint64_t from, const std::uint64_t* units) {
    PayloadClaims& claims = ring_.claims();
    const std::uint64_t all = std::accumulate(units, units + claim.count, kNone);
    const RowCopy large = store_.streams(all * store_.unit());
    PayloadClaims::Cursor next = claims.cursor(claim.place);
    std::uint64_t slot = ring_.slot(claim.first);
    for (std::uint64_t i = 0; i < claim.count; ++i) {
      const PayloadClaims::Cursor start = claims.take(next, units[i]);
      store_.write({claim.first + i, slot, start}, leaves, from + i, large);
      claims.end_in(slot, next.place);
      if (++slot == ring_.capacity()) slot = 0;
    }
    if (large) finish_streaming();
  }

  void check(const SourceLeaf* leaves, std::uint64_t n) const {
    if (most_rows_.size() == 1 && are_fine(leaves[store_.fields()[0].field], n)) return;
    for (std::uint64_t i = 0; i < n; ++i)
      if (!is_fine(leaves, i)) refuse(leaves, i);
  }

  /// Returns whether examples of one field are: without a branch for each.
  bool are_fine(const SourceLeaf& leaf, std::uint64_t n) const {
    if (leaf.data == nullptr || !leaf.offsets) return false;
    const std::int64_t* offsets = leaf.offsets;
    const std::uint64_t most = most_rows_[0];
    bool fine = n == 0 || offsets[0] >= 0;
    for (std::uint64_t i = 0; i < n; ++i)
      fine &= offsets[i + 1] >= offsets[i] && leaf.rows_of(i) <= most;
    return fine;
  }

  bool is_fine(const SourceLeaf* leaves, std::uint64_t i) const {
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < most_rows_.size(); ++f) {
      const RaggedField& field = store_.fields()[f];
      const SourceLeaf& leaf = leaves[field.field];
      const std::uint64_t rows = leaf.rows_of(i);
      if (rows > most_rows_[f]) return false;  // a decrease is very many, too
      if (leaf.offsets &&
          (leaf.offsets[i] < 0 || leaf.offsets[i + 1] < leaf.offsets[i]))
        return false;
      if (leaf.data == nullptr && rows > 0) return false;
      bytes += rows * field.row_bytes;
    }
    return bytes <= most_bytes_;
  }

  /// Throws if is_fine() says no.
  void refuse(const SourceLeaf* leaves, std::uint64_t i) const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : store_.fields()) {
      const SourceLeaf& leaf = leaves[field.field];
      const std::uint64_t rows = leaf.rows_of(i);
      check_rows(leaf, field, i);
      if (field.max_length > 0 && rows > field.max_length)
        argument_checks::refuse("put", "example " + std::to_string(i) + " has " +
                                           std::to_string(rows) + " rows, but " +
                                           "`max_length` is " +
                                           std::to_string(field.max_length));
      // More rows than fit are as many bytes that do not: a product could overflow.
      bytes += std::min(rows, most_bytes_ / field.row_bytes + 1) * field.row_bytes;
    }
    if (bytes > most_bytes_)
      argument_checks::refuse(
          "put", "example " + std::to_string(i) + " has " + std::to_string(bytes) +
                     " bytes or more, but a segment\'s share of `payload_bytes` is " +
                     std::to_string(most_bytes_));
  }

  /// Refuses what no rows can be read from.
  static void check_rows(const SourceLeaf& leaf, const RaggedField& field,
                         std::uint64_t i) {
    const auto name = [&] { return "leaf " + std::to_string(field.field); };
    if (leaf.offsets && (leaf.offsets[i] < 0 || leaf.offsets[i + 1] < leaf.offsets[i]))
      argument_checks::refuse(
          "put", name() + " has `offsets` from " + std::to_string(leaf.offsets[i]) +
                     " to " + std::to_string(leaf.offsets[i + 1]) +
                     "; they begin at 0 or above and never decrease");
    if (leaf.data == nullptr && leaf.rows_of(i) > 0)
      argument_checks::refuse("put", name() + " points to null");
  }

  Ring& ring_;
  Store& store_;
  const std::uint64_t most_bytes_;
  std::vector<std::uint64_t> most_rows_;  // by the fields of the store
  UpstreamClock clock_;
};

}  // namespace echobuf
