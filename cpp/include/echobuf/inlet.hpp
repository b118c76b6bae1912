// Where fresh examples come in: any number of threads put them into the ring's slots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "echobuf/attempt.hpp"
#include "echobuf/options.hpp"
#include "echobuf/outstanding.hpp"
#include "echobuf/side_clock.hpp"
#include "echobuf/store_host.hpp"

namespace echobuf {

template <class Ring, class Store>
class Inlet {
 public:
  Inlet(Ring& ring, Store& store)
      : ring_(ring),
        store_(store),
        chunk_(std::max<std::uint64_t>(1, kChunkBytes / store.layout().stride())) {}

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: of
  /// each, if records are ragged.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, Patience patience, Poll* poll) {
    if (n == 0 && ring_.claim(0, term).closed) return Status::kClosed;
    while (done < n) {
      const auto claim = ring_.claim(std::min(chunk_, n - done), term);
      if (claim.closed) return Status::kClosed;
      if (claim.count == 0) {
        const Status status =
            wait_for_room<WaitClock::Stay>(clock_.waits(), term, patience);
        if (status != Status::kOk) return status;
        continue;
      }
      store_.write(claim.first, claim.count, leaves, done, rows);
      clock_.arrived(claim.first + (n - done));  // with all of this put
      ring_.commit(claim.first, claim.count);
      done += claim.count;
      if (poll && done < n && !poll->go_on()) return Status::kInterrupted;
    }
    return Status::kOk;
  }

  /// Takes up to `count` positions, and says how many from which on, for somebody else
  /// to write, who must: see commit().
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               Patience patience) {
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
          wait_for_room<Outstanding::Wait>(outstanding_, term, patience);
      if (status != Status::kOk) return status;
    }
  }

  /// Positions that were claimed have been written.
  void commit(std::uint64_t first, std::uint64_t count) {
    clock_.arrived(first + count);
    ring_.commit(first, count);
    outstanding_.take_off(count);
  }

  /// Positions that somebody else is to write, and has not: a statistic.
  std::uint64_t lent_out() const { return outstanding_.count(); }

  UpstreamClock& clock() { return clock_; }

 private:
  /// So much is claimed at once: a draw need not wait for the whole of a large put.
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

  /// `Wait`: says to `waits` for how long this has waited.
  template <class Wait, class Waits>
  Status wait_for_room(Waits& waits, std::uint64_t term, Patience& patience) {
    const std::uint32_t key = ring_.room().prepare();
    const auto look = ring_.claim(0, term);
    if (look.closed) return Status::kClosed;
    if (ring_.has_room()) return Status::kOk;
    const Deadline now = Clock::now();
    const bool over = now >= patience.end;
    // What a caller has waited before counts, also if that was all of its time.
    if (over && !patience.since) return Status::kTimeout;
    const Wait wait(waits, patience.since.value_or(now));
    patience.since.reset();  // of the first wait alone
    if (over) return Status::kTimeout;
    ring_.room().wait(key, patience.end);
    return Status::kOk;
  }

  Ring& ring_;
  Store& store_;
  const std::uint64_t chunk_;
  UpstreamClock clock_;
  Outstanding outstanding_{clock_.waits()};
};

}  // namespace echobuf
