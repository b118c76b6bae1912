// Small programs on the ring: producers, a consumer, perhaps somebody who closes it.
// They wait as Buffer does: see put(), wait_for_room() and draw_or_prepare() there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "echobuf/store/ring.hpp"
#include "echobuf/sync/draw_lock.hpp"
#include "echobuf/sync/wait_for.hpp"
#include "explorer.hpp"

namespace echobuf::model {

/// Deadlines that pass when the model's clock has ticked so often.
inline Deadline at_tick(std::uint32_t tick) {
  return Deadline(std::chrono::nanoseconds(static_cast<std::int64_t>(now_of(tick))));
}

struct RingPlan {
  std::uint64_t capacity = 2;
  std::uint64_t runs[2] = {1, 1};  // puts of each producer
  std::uint64_t run = 1;           // records a put
  std::uint64_t units = 0;         // of the payload, where records differ in size
  std::uint64_t sizes[2] = {};     // of the records of each producer
  std::uint64_t wrap_from = ~std::uint64_t{0};  // of the payload
  std::uint64_t staged_slots = 0;               // where records pass through staging
  std::uint64_t staged_units = 0;
  std::uint64_t keep = 0;       // records not released at once; or how many looks
  bool second_closes = false;   // producer 1, when it is done; else the last one
  std::uint64_t ahead = 1;      // records of a term opened ahead
  bool consumer_opens = false;  // that term; else its producer
  bool gives_up = false;        // goes over to it with records left
  std::uint32_t put_deadline = ~0u;
  std::uint32_t next_deadline = ~0u;
};

class RingWorld {
 public:
  explicit RingWorld(const RingPlan& plan)
      : plan_(plan), ring_(plan.capacity), slots_(new std::uint64_t[plan.capacity]()) {}
  RingWorld(const RingWorld&) = delete;

 protected:
  static Deadline deadline_of(std::uint32_t tick) {
    return tick == ~0u ? Deadline::max() : at_tick(tick);
  }

  /// Buffer::put(), of the records `from` ... `end`-1 of this producer.
  bool put(std::uint64_t producer, std::uint64_t term, std::uint64_t from,
           std::uint64_t end, Deadline deadline) {
    while (from < end) {
      const Ring::Claim claim = ring_.claim(end - from, term);
      if (claim.closed) return false;
      if (claim.count == 0) {
        if (!wait_for_room(term, deadline)) return false;
        continue;
      }
      for (std::uint64_t i = 0; i < claim.count; ++i, ++from)
        slots_[ring_.slot(claim.first + i)] = tag(term) | producer << 8 | from;
      accepted_[producer] += claim.count;
      ring_.commit(claim.first, claim.count);
    }
    return true;
  }

  /// Returns the bit that marks a record of the second term.
  static std::uint64_t tag(std::uint64_t term) { return term ? 1u << 16 : 0u; }

  bool wait_for_room(std::uint64_t term, Deadline deadline) {
    const std::uint32_t key = ring_.room().prepare();
    if (ring_.claim(0, term).closed) return false;
    if (ring_.has_room()) return true;
    if (Clock::now() >= deadline) return false;
    ring_.room().wait(key, deadline);
    return true;
  }

  void produce(std::uint64_t producer) {
    const std::uint64_t term = ring_.term();
    for (std::uint64_t r = 0; r < plan_.runs[producer]; ++r)
      if (!put(producer, term, r * plan_.run, (r + 1) * plan_.run,
               deadline_of(plan_.put_deadline)))
        break;
    if (plan_.second_closes ? producer == 1 : last_one()) ring_.close();
  }

  bool last_one() { return ended_.fetch_add(1, std::memory_order_relaxed) == 1; }

  enum class Look { kRecord, kNothing, kEnd };

  /// Drawer::look(), for one record.
  Look look() {
    const Ring::Extent extent = ring_.extent();
    check(extent.committed <= ring_.released() + plan_.capacity,
          "committed beyond the limit");
    if (extent.committed > next_) return Look::kRecord;
    return extent.closed && extent.committed == extent.tail ? Look::kEnd
                                                            : Look::kNothing;
  }

  /// Takes a record, or says that there is none (any more).
  Look take(Deadline deadline) {
    for (;;) {
      Look found = look();
      if (found == Look::kNothing) {
        ring_.want(next_);
        const std::uint32_t key = ring_.filled().prepare();
        found = look();
        if (found == Look::kNothing) {
          if (Clock::now() >= deadline) return found;
          ring_.filled().wait(key, deadline);
          continue;
        }
      }
      if (found == Look::kRecord) {
        note(slots_[ring_.slot(next_)]);
        ++next_;
        if (next_ > plan_.keep) ring_.release(next_ - plan_.keep);
      }
      return found;
    }
  }

  void note(std::uint64_t record) {
    check(record >> 16 == epoch_, "a record of another epoch");
    const std::uint64_t producer = record >> 8 & 0xFF;
    check(producer < 2 && (record & 0xFF) == got_[producer],
          "a record is lost, torn, twice there or out of order");
    ++got_[producer];
  }

  const RingPlan plan_;
  Ring ring_;
  std::uint64_t* const slots_;
  std::uint64_t next_ = 0;
  std::uint64_t epoch_ = 0;  // of the consumer
  std::uint64_t accepted_[2] = {}, got_[2] = {};
  std::atomic<int> ended_{0};
};

/// Threads 0 and 1 put, 2 takes.
class PutAndTake : public RingWorld {
 public:
  static constexpr int kThreads = 3;
  using RingWorld::RingWorld;

  void run(int thread) {
    if (thread < 2) {
      produce(static_cast<std::uint64_t>(thread));
      return;
    }
    Deadline deadline = deadline_of(plan_.next_deadline);
    for (Look found = Look::kNothing; found != Look::kEnd;) {
      found = take(deadline);
      if (found == Look::kNothing) deadline = Deadline::max();  // timed out: once more
    }
  }

  void end() {
    for (int p = 0; p < 2; ++p) {
      check(got_[p] == accepted_[p], "what was accepted is what was taken");
      const bool all = accepted_[p] == plan_.runs[p] * plan_.run;
      check(all || plan_.second_closes || plan_.put_deadline != ~0u, "all is accepted");
    }
    check(ring_.tail() == next_ && ring_.closed(), "the ring is empty and closed");
    outcome(accepted_[0] << 8 | accepted_[1]);
  }
};

/// Thread 0 puts, 1 and 2 take, one at a time: draw() and draw_or_prepare() of Buffer.
class TakeInTurn : public RingWorld {
 public:
  static constexpr int kThreads = 3;
  using RingWorld::RingWorld;

  void run(int thread) {
    if (thread == 0) {
      produce(0);
      ring_.close();
      return;
    }
    while (wait_for(Deadline::max(), nullptr, [&] { return attempt(); }) == Status::kOk)
      continue;
  }

  void end() {
    check(got_[0] == plan_.runs[0] * plan_.run, "all is taken");
    outcome(got_[0]);
  }

 private:
  Attempt attempt() {
    const DrawLock::Guard lock(draw_lock_, std::try_to_lock);
    if (!lock) return {Status::kTimeout, &draw_lock_.event()};
    Look found = look();
    std::uint32_t key = 0;
    if (found == Look::kNothing) {
      ring_.want(next_);
      key = ring_.filled().prepare();
      found = look();
      if (found == Look::kNothing) return {Status::kTimeout, &ring_.filled(), key};
      ring_.filled().notify();
    }
    if (found == Look::kEnd) return {Status::kFinished};
    note(slots_[ring_.slot(next_)]);
    ring_.release(++next_);
    return {Status::kOk};
  }

  DrawLock draw_lock_;
};

/// Nobody waits: threads 0 and 1 claim some times, whether there is room or not, and 2
/// looks some times. Small enough for claims with a tail that others have moved.
class ClaimAndLook : public RingWorld {
 public:
  static constexpr int kThreads = 3;
  using RingWorld::RingWorld;

  void run(int thread) {
    if (thread < 2) {
      const auto producer = static_cast<std::uint64_t>(thread);
      for (std::uint64_t n = 0; n < plan_.runs[producer]; ++n) {
        const Ring::Claim claim = ring_.claim(plan_.run, 0);
        check(claim.count <= plan_.capacity, "a claim larger than the ring");
        for (std::uint64_t i = 0; i < claim.count; ++i)
          slots_[ring_.slot(claim.first + i)] = producer << 8 | accepted_[producer]++;
        if (claim.count > 0) ring_.commit(claim.first, claim.count);
      }
      return;
    }
    for (std::uint64_t n = 0; n < plan_.keep; ++n)
      if (ring_.committed() > next_) {
        note(slots_[ring_.slot(next_)]);
        ring_.release(++next_);
      }
  }

  void end() {
    check(got_[0] <= accepted_[0] && got_[1] <= accepted_[1], "more than was put");
    outcome(accepted_[0] << 8 | accepted_[1]);
  }
};

/// Threads 0 and 1 put into whatever term they find, 2 begins another: restart() of
/// Buffer. Nothing of the first term is in the second.
class PutAndReset : public RingWorld {
 public:
  static constexpr int kThreads = 3;
  using RingWorld::RingWorld;

  void run(int thread) {
    if (thread < 2) {
      const std::uint64_t term = ring_.term();
      const Ring::Claim claim = ring_.claim(plan_.run, term);
      for (std::uint64_t i = 0; i < claim.count; ++i)
        slots_[ring_.slot(claim.first + i)] = term;
      if (claim.count > 0) ring_.commit(claim.first, claim.count);
      return;
    }
    const std::uint64_t first = ring_.term();
    drain(first);
    ring_.release(next_);
    ring_.reopen();
    const std::uint64_t second = ring_.term();
    check(second != first, "another term");
    drain(second);
  }

  void end() { outcome(next_); }

 private:
  /// Closes, waits for those who had claimed, and looks at what they have put.
  void drain(std::uint64_t term) {
    ring_.close();
    while (ring_.committed() != ring_.tail())
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    for (; next_ < ring_.tail(); ++next_)
      check(slots_[ring_.slot(next_)] == term, "a record of another term");
  }
};

}  // namespace echobuf::model
