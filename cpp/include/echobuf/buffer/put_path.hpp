// The put path: any number of threads put fresh examples into the ring's slots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "echobuf/buffer/room_wait.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/versions.hpp"
#include "echobuf/sync/clocks.hpp"
#include "echobuf/sync/outstanding_claims.hpp"

namespace echobuf {

template <class Ring, class Store>
class PutPath {
 public:
  /// `versions`: of the records; null: nobody asks for them.
  PutPath(Ring& ring, Store& store, Versions* versions = nullptr)
      : ring_(ring),
        store_(store),
        versions_(versions),
        chunk_(std::max<std::uint64_t>(1, kChunkBytes / store.layout().stride())) {}

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: of
  /// each, if records are ragged. `versions`: of all n; null: they have none.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, WaitLimit wait_limit, Poll* poll,
             const std::int64_t* versions = nullptr) {
    if (n == 0 && ring_.claim(0, term).closed) return Status::kClosed;
    while (done < n) {
      const auto claim = ring_.claim(std::min(chunk_, n - done), term);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status =
            wait_for_room<WaitClock::Guard>(clock_.waits(), term, wait_limit);
        if (status != Status::kOk) return status;
        continue;
      }
      store_.write(claim.first, claim.count, leaves, done, rows);
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

  /// Takes up to `count` positions, and says how many from which on, for another
  /// process to write, who must: see commit().
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               WaitLimit wait_limit) {
    for (;;) {
      const auto claim = ring_.claim(count, term);
      if (claim.closed) return Status::kClosed;
      if (claim.count > 0) {
        first = claim.first;
        count = claim.count;
        outstanding_.add(count);
        store_.note_writes(first, count);  // from now on, at any time
        return Status::kOk;
      }
      const Status status =
          wait_for_room<OutstandingClaims::Wait>(outstanding_, term, wait_limit);
      if (status != Status::kOk) return status;
    }
  }

  /// All records that are borrowed can be drawn: they are of one size.
  static constexpr Misfit misfit() { return {}; }

  /// Records of one size are made where they are claimed.
  static Status put_made(std::uint64_t, const SourceLeaf*, std::uint64_t&,
                         const WaitLimit&) {
    return Status::kFailed;
  }
  static void begin_making(std::uint64_t) {}
  static void end_making(std::uint64_t) {}

  /// Positions that were claimed have been written.
  void commit(std::uint64_t first, std::uint64_t count) {
    clock_.arrived(first + count);
    if (versions_) versions_->write(first, count, nullptr);
    ring_.commit(first, count);
    outstanding_.take_off(count);
  }

  /// Returns how many claimed positions others have yet to write: a statistic.
  std::uint64_t outstanding() const { return outstanding_.count(); }

  UpstreamClock& clock() { return clock_; }

 private:
  /// So much is claimed at once: a draw need not wait for the whole of a large put.
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

  template <class Wait, class Waits>
  Status wait_for_room(Waits& waits, std::uint64_t term, WaitLimit& wait_limit) {
    return echobuf::wait_for_room<Wait>(
        ring_, waits, wait_limit, [&] { return ring_.claim(0, term).closed; },
        [&] { return ring_.has_room(); });
  }

  Ring& ring_;
  Store& store_;
  Versions* const versions_;
  const std::uint64_t chunk_;
  UpstreamClock clock_;
  OutstandingClaims outstanding_{clock_.waits()};
};

}  // namespace echobuf
