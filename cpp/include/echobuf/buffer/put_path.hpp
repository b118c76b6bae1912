// The put path: any number of threads put fresh examples into the ring's slots, and
// their rows into the payload.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "echobuf/buffer/room_wait.hpp"
#include "echobuf/buffer/rows_checks.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/source_leaf.hpp"
#include "echobuf/store/versions.hpp"
#include "echobuf/sync/clocks.hpp"
#include "echobuf/sync/outstanding_claims.hpp"

namespace echobuf {

/// `Ring`, `Store`: of the window, or of its staging.
template <class Ring, class Store>
class PutPath {
 public:
  /// `versions`: of the records; null: nobody asks for them. `most_bytes`: of the rows
  /// of a record, if it has any.
  PutPath(Ring& ring, Store& store, std::uint64_t most_bytes = 0,
          Versions* versions = nullptr)
      : ring_(ring),
        store_(store),
        table_(store.table()),
        versions_(versions),
        checks_(table_, most_bytes),
        chunk_(table_ ? kRowsChunk
                      : std::max<std::uint64_t>(
                            1, kChunkBytes / store.layout().stride())) {}

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: the
  /// examples of each, if it is a whole batch. `versions`: of all n; null: they have
  /// none. Throws std::invalid_argument, before anything is put: see RowsChecks.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, WaitLimit wait_limit, Poll* poll,
             const std::int64_t* versions = nullptr) {
    if (table_ && done == 0 && n > 0) checks_.check(leaves, n, rows);
    return put<WaitClock::Guard>(clock_.waits(), term, Written{*this, leaves, rows}, n,
                                 done, wait_limit, poll, versions);
  }

  /// The same of examples that `write` claims positions for and writes: it has what
  /// Written has.
  template <class Write>
  Status put_by(Write&& write, std::uint64_t term, const SourceLeaf* leaves,
                std::uint64_t n, std::size_t rows, std::uint64_t& done,
                WaitLimit wait_limit, Poll* poll, const std::int64_t* versions) {
    if (table_ && done == 0 && n > 0) checks_.check(leaves, n, rows);
    return put<WaitClock::Guard>(clock_.waits(), term, write, n, done, wait_limit, poll,
                                 versions);
  }

  /// Puts one example with rows that another process has made. A wait for room is
  /// upstream's only while none is being made.
  Status put_made(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t& done,
                  WaitLimit wait_limit) {
    if (table_ && done == 0) checks_.check(leaves, 1, 0);
    return put<OutstandingClaims::Wait>(outstanding_, term, Written{*this, leaves, 0},
                                        1, done, wait_limit, nullptr, nullptr);
  }
  /// Others begin to make `n` examples, or have made them. Those without rows are made
  /// where they are claimed.
  void begin_making(std::uint64_t n) {
    if (table_) outstanding_.add(n);
  }
  void end_making(std::uint64_t n) {
    if (table_) outstanding_.take_off(n);
  }

  /// Takes up to `count` positions, and says how many from which on, for another
  /// process to write, who must: see commit(). Of borrowed records with rows it has,
  /// and misfit() says which cannot be drawn.
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               WaitLimit wait_limit) {
    for (;;) {
      const auto claim = ring_.claim(count, term);
      if (claim.closed) return Status::kClosed;
      if (claim.count > 0) {
        first = claim.first;
        count = claim.count;
        outstanding_.add(count);
        misfit_ = store_.note_writes(first, count);  // from now on, at any time
        return Status::kOk;
      }
      const Status status = wait_for_room<OutstandingClaims::Wait>(
          outstanding_, term, Written{*this, nullptr, 0}, 0, wait_limit);
      if (status != Status::kOk) return status;
    }
  }
  /// The first record of the last claim that cannot be drawn, of borrowed ones.
  const Misfit& misfit() const { return misfit_; }

  /// Positions that were claimed have been written.
  void commit(std::uint64_t first, std::uint64_t count) {
    clock_.arrived(first + count);
    if (versions_) versions_->write(first, count, nullptr);
    ring_.commit(first, count);
    outstanding_.take_off(count);
  }

  /// Returns how many claimed positions others have yet to write: a statistic. Nobody
  /// else writes rows.
  std::uint64_t outstanding() const { return table_ ? 0 : outstanding_.count(); }

  UpstreamClock& clock() { return clock_; }
  /// Of the rows of a record, if it has any.
  std::uint64_t most_bytes() const { return checks_.most_bytes(); }

 private:
  /// So much is claimed at once: a draw need not wait for the whole of a large put.
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;
  static constexpr std::uint64_t kRowsChunk = 64;  // records

  /// Leaves on the host, which are written into slots.
  struct Written {
    PutPath& path;
    const SourceLeaf* leaves;
    std::size_t rows;  // of a whole batch

    /// Claims positions for up to `want` examples from `from` on, and writes these.
    /// `least`: set to the units of the first, if it has any.
    Claims::Claim operator()(std::uint64_t from, std::uint64_t want, std::uint64_t term,
                             std::uint64_t& least) const {
      want = std::min(want, path.chunk_);
      return path.table_ ? path.write_rows(leaves, from, want, rows, term, least)
                         : path.write_slots(leaves, from, want, rows, term);
    }
    bool has_room(std::uint64_t units) const { return path.ring_.has_room(units); }
    EventCount& room() const { return path.ring_.room(); }
  };

  /// `Wait`: says to `waits` for how long this has waited for room.
  template <class Wait, class Waits, class Write>
  Status put(Waits& waits, std::uint64_t term, Write&& write, std::uint64_t n,
             std::uint64_t& done, WaitLimit& wait_limit, Poll* poll,
             const std::int64_t* versions) {
    if (n == 0) return ring_.is_over(term) ? Status::kClosed : Status::kOk;
    while (done < n) {
      std::uint64_t least = 0;
      const Claims::Claim claim = write(done, n - done, term, least);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status =
            wait_for_room<Wait>(waits, term, write, least, wait_limit);
        if (status != Status::kOk) return status;
        continue;
      }
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

  template <class Wait, class Waits, class Write>
  Status wait_for_room(Waits& waits, std::uint64_t term, const Write& write,
                       std::uint64_t units, WaitLimit& wait_limit) {
    EventCount& room = write.room();
    return echobuf::wait_for_room<Wait>(
        room, waits, wait_limit, [&] { return ring_.is_over(term); },
        [&] { return &write.room() != &room || write.has_room(units); });
  }

  /// Claims positions for up to `want` examples from `from` on, and writes these.
  Claims::Claim write_slots(const SourceLeaf* leaves, std::uint64_t from,
                            std::uint64_t want, std::size_t rows, std::uint64_t term) {
    const Claims::Claim claim = ring_.claim(want, term);
    if (claim.count > 0) store_.write(claim.first, claim.count, leaves, from, rows);
    return claim;
  }

  /// The same of examples with rows. `least`: set to the units of the first.
  Claims::Claim write_rows(const SourceLeaf* leaves, std::uint64_t from,
                           std::uint64_t want, std::uint64_t examples,
                           std::uint64_t term, std::uint64_t& least) {
    std::uint64_t units[kRowsChunk];
    table_->units_of(leaves, from, want, examples, units);
    store_.note_largest(*std::max_element(units, units + want));
    least = units[0];
    const Claims::Claim claim = ring_.claim(want, term, units);
    const std::uint64_t all =
        std::accumulate(units, units + claim.count, std::uint64_t{0});
    const RowCopy large = store_.streams(all * table_->unit());
    Claims& claims = ring_.claims();
    Claims::Cursor next = claims.cursor(claim.place);
    std::uint64_t slot = claim.first % ring_.capacity();
    for (std::uint64_t i = 0; i < claim.count; ++i) {
      const Claims::Cursor start = claims.take(next, units[i]);
      store_.write({claim.first + i, slot, start}, leaves, from + i, large, examples);
      claims.end_in(slot, next.place);
      if (++slot == ring_.capacity()) slot = 0;
    }
    if (large) finish_streaming();
    return claim;
  }

  Ring& ring_;
  Store& store_;
  const RowsTable* const table_;  // null: records have no rows
  Versions* const versions_;
  const RowsChecks checks_;
  const std::uint64_t chunk_;
  UpstreamClock clock_;
  OutstandingClaims outstanding_{clock_.waits()};
  Misfit misfit_;
};

}  // namespace echobuf
