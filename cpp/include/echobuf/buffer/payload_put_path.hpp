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
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/versions.hpp"
#include "echobuf/sync/outstanding_claims.hpp"

namespace echobuf {

/// `Ring`, `Store`: of the window, or of its staging.
template <class Ring, class Store>
class PayloadPutPath {
 public:
  /// `versions`: of the records; null: nobody asks for them.
  PayloadPutPath(Ring& ring, Store& store, std::uint64_t most_bytes,
                 Versions* versions = nullptr)
      : ring_(ring), store_(store), versions_(versions), most_bytes_(most_bytes) {
    for (const RaggedField& field : store.fields()) {
      const std::uint64_t fit = most_bytes / field.row_bytes;
      most_rows_.push_back(field.max_length > 0 ? std::min(field.max_length, fit)
                                                : fit);
    }
  }

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. Throws
  /// std::invalid_argument, before anything is put, for examples that are larger than a
  /// segment's share of the payload, or than `max_length` says; and for whole batches,
  /// of `rows` examples each, if there are several. `versions`: of all n; null: they
  /// have none.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, WaitLimit wait_limit, Poll* poll,
             const std::int64_t* versions = nullptr) {
    return put<WaitClock::Guard>(clock_.waits(), term, leaves, n, rows, done,
                                 wait_limit, poll, versions);
  }

  /// Puts one example that another process has made. A wait for room is upstream's only
  /// while none is being made.
  Status put_made(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t& done,
                  WaitLimit wait_limit) {
    return put<OutstandingClaims::Wait>(making_, term, leaves, 1, 0, done, wait_limit,
                                        nullptr, nullptr);
  }
  /// Others begin to make `n` examples, or have made them.
  void begin_making(std::uint64_t n) { making_.add(n); }
  void end_making(std::uint64_t n) { making_.take_off(n); }

  /// Takes up to `count` positions of records that are borrowed, and says how many from
  /// which on; see misfit(), and then commit().
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               WaitLimit wait_limit) {
    PayloadClaims& claims = ring_.claims();
    const auto none = [](std::uint64_t) { return std::uint64_t{0}; };
    for (;;) {
      const auto claim = claims.claim(count, none, term);
      if (claim.closed) return Status::kClosed;
      if (claim.count > 0) {
        first = claim.first;
        count = claim.count;
        for (std::uint64_t i = 0; i < count; ++i) claims.end_at(first + i, claim.place);
        misfit_ = store_.note_writes(first, count);
        return Status::kOk;
      }
      const Status status = wait_for_room<WaitClock::Guard>(
          ring_, clock_.waits(), wait_limit, [&] { return is_over(term); },
          [&] { return claims.has_room(0); });
      if (status != Status::kOk) return status;
    }
  }
  /// The first record of the last claim that cannot be drawn.
  const Misfit& misfit() const { return misfit_; }

  void commit(std::uint64_t first, std::uint64_t count) {
    clock_.arrived(first + count);
    if (versions_) versions_->write(first, count, nullptr);
    ring_.commit(first, count);
  }

  /// Nobody else writes payload.
  static constexpr std::uint64_t outstanding() { return 0; }

  UpstreamClock& clock() { return clock_; }

 private:
  /// So many records are claimed at once: a draw need not wait for all of a large put.
  static constexpr std::uint64_t kChunk = 64;
  static constexpr std::uint64_t kNone = 0;

  /// `Wait`: says to `waits` for how long this has waited for room.
  template <class Wait, class Waits>
  Status put(Waits& waits, std::uint64_t term, const SourceLeaf* leaves,
             std::uint64_t n, std::uint64_t rows, std::uint64_t& done,
             WaitLimit wait_limit, Poll* poll, const std::int64_t* versions) {
    if (n == 0) return is_over(term) ? Status::kClosed : Status::kOk;
    if (done == 0) check(leaves, n, rows);
    PayloadClaims& claims = ring_.claims();
    while (done < n) {
      const std::uint64_t want = std::min(kChunk, n - done);
      std::uint64_t units[kChunk];
      store_.units_of(leaves, done, want, rows, units);
      store_.note_largest(*std::max_element(units, units + want));
      const auto units_of = [&](std::uint64_t i) { return units[i]; };
      const auto claim = claims.claim(want, units_of, term);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status = wait_for_room<Wait>(
            ring_, waits, wait_limit, [&] { return is_over(term); },
            [&] { return claims.has_room(units[0]); });
        if (status != Status::kOk) return status;
        continue;
      }
      write(claim, leaves, done, units, rows);
      if (versions_)
        versions_->write(claim.first, claim.count,
                         versions ? versions + done : nullptr);
      clock_.arrived(claim.first + (n - done));  // with all of this put
      ring_.commit(claim.first, claim.count);
      done += claim.count;
      if (poll && done < n && !poll->go_on()) return Status::kInterrupted;
    }
    return Status::kOk;
  }

  bool is_over(std::uint64_t term) const {
    return ring_.closed() || ring_.term() != term;
  }

  void write(const PayloadClaims::Claim& claim, const SourceLeaf* leaves,
             std::uint64_t from, const std::uint64_t* units, std::uint64_t examples) {
    PayloadClaims& claims = ring_.claims();
    const std::uint64_t all = std::accumulate(units, units + claim.count, kNone);
    const RowCopy large = store_.streams(all * store_.unit());
    PayloadClaims::Cursor next = claims.cursor(claim.place);
    std::uint64_t slot = ring_.slot(claim.first);
    for (std::uint64_t i = 0; i < claim.count; ++i) {
      const PayloadClaims::Cursor start = claims.take(next, units[i]);
      store_.write({claim.first + i, slot, start}, leaves, from + i, large, examples);
      claims.end_in(slot, next.place);
      if (++slot == ring_.capacity()) slot = 0;
    }
    if (large) finish_streaming();
  }

  void check(const SourceLeaf* leaves, std::uint64_t n, std::uint64_t examples) const {
    if (store_.in_batches()) return check_batches(leaves, n, examples);
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
    for (const RaggedField& field : store_.fields()) {
      check_rows(leaves[field.field], field, i);
      check_length(leaves[field.field].rows_of(i), field, i);
    }
    check_bytes(leaves, i);
  }

  void check_batches(const SourceLeaf* leaves, std::uint64_t n,
                     std::uint64_t examples) const {
    if (n > 1)
      argument_checks::refuse("put", "there are " + std::to_string(n) +
                                         " whole batches; put them one by one");
    for (std::uint64_t i = 0; i < n; ++i) {
      for (const RaggedField& field : store_.fields()) {
        check_rows(leaves[field.field], field, i);
        check_batch(leaves[field.field], field, examples);
      }
      check_bytes(leaves, i);
    }
  }

  void check_bytes(const SourceLeaf* leaves, std::uint64_t i) const {
    std::uint64_t bytes = 0;
    for (const RaggedField& field : store_.fields())
      // More rows than fit are as many bytes that do not: a product could overflow.
      bytes +=
          std::min(leaves[field.field].rows_of(i), most_bytes_ / field.row_bytes + 1) *
          field.row_bytes;
    if (bytes > most_bytes_)
      argument_checks::refuse(
          "put", "example " + std::to_string(i) + " has " + std::to_string(bytes) +
                     " bytes or more, but a segment\'s share of `payload_bytes` is " +
                     std::to_string(most_bytes_));
  }

  static void check_length(std::uint64_t rows, const RaggedField& field,
                           std::uint64_t i) {
    if (field.max_length > 0 && rows > field.max_length)
      argument_checks::refuse("put", "example " + std::to_string(i) + " has " +
                                         std::to_string(rows) + " rows, but " +
                                         "`max_length` is " +
                                         std::to_string(field.max_length));
  }

  /// Refuses a batch whose offsets are not those of its rows. check_leaves() has looked
  /// at the number of its examples.
  static void check_batch(const SourceLeaf& leaf, const RaggedField& field,
                          std::uint64_t examples) {
    const std::int64_t* const offsets = leaf.batch_offsets;
    const auto name = [&] { return "leaf " + std::to_string(field.field); };
    if (offsets == nullptr || leaf.offsets != nullptr)
      argument_checks::refuse("put", name() + " is no whole batch, as of_batch() is");
    if (offsets[0] != 0 || static_cast<std::uint64_t>(offsets[examples]) != leaf.rows)
      argument_checks::refuse(
          "put", name() + " has `batch_offsets` from " + std::to_string(offsets[0]) +
                     " to " + std::to_string(offsets[examples]) +
                     "; they begin at 0 and end at its number of rows, " +
                     std::to_string(leaf.rows));
    for (std::uint64_t i = 0; i < examples; ++i) {
      if (offsets[i + 1] < offsets[i])
        argument_checks::refuse("put", name() + " has `batch_offsets` that decrease");
      check_length(static_cast<std::uint64_t>(offsets[i + 1] - offsets[i]), field, i);
    }
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
  Versions* const versions_;
  const std::uint64_t most_bytes_;
  std::vector<std::uint64_t> most_rows_;  // by the fields of the store
  UpstreamClock clock_;
  OutstandingClaims making_{clock_.waits()};
  Misfit misfit_;
};

}  // namespace echobuf
