// Small programs on a ring of records that differ in size. They put and wait as
// PutPath does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "ring_world.hpp"

namespace echobuf::model {

/// Each producer's records have a size of their own, and every unit of the payload is
/// written and read. Positions and places begin where the word that claims go through
/// is about to begin again with their digits, and not for the first time: a limit that
/// is out of date would be taken for one of a ring before.
class PayloadWorld {
  static constexpr std::uint64_t kFirst = (std::uint64_t{1} << 25) - 1;
  static constexpr std::uint64_t kMostOfRun = 4;
  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 31) - 2;

 public:
  explicit PayloadWorld(const RingPlan& plan)
      : plan_(plan),
        ring_({.capacity = plan.capacity,
               .units = plan.units,
               .wrap_from = plan.wrap_from,
               .first = kFirst,
               .place = kPlace}),
        payload_(new std::uint64_t[plan.units]()),
        starts_(new std::uint64_t[plan.capacity]()),
        producers_(new std::uint64_t[plan.capacity]()) {}
  PayloadWorld(const PayloadWorld&) = delete;

 protected:
  Claims::Claim claim(std::uint64_t producer, std::uint64_t count, std::uint64_t term) {
    std::uint64_t sizes[kMostOfRun];
    check(count <= kMostOfRun, "a run of more");
    for (std::uint64_t i = 0; i < count; ++i) sizes[i] = plan_.sizes[producer];
    return ring_.claim(count, term, sizes);
  }

  /// Writes what is claimed, `value` in each unit, and commits it.
  void write(const Claims::Claim& claim, std::uint64_t producer, std::uint64_t value) {
    std::uint64_t place = claim.place;
    for (std::uint64_t i = 0; i < claim.count; ++i) {
      const std::uint64_t start = ring_.claims().take(place, plan_.sizes[producer]);
      const std::uint64_t slot = ring_.slot(claim.first + i);
      starts_[slot] = start % plan_.units;
      producers_[slot] = producer;
      for (std::uint64_t unit = 0; unit < plan_.sizes[producer]; ++unit)
        payload_[starts_[slot] + unit] = value + i;
      ring_.claims().end_at(claim.first + i, place);
    }
    ring_.commit(claim.first, claim.count);
  }

  /// Looks at the record that is next, unit by unit: `value` of its producer.
  template <class Value>
  void read(const Value& value) {
    const std::uint64_t slot = ring_.slot(next_);
    const std::uint64_t producer = producers_[slot];
    check(producer < 2, "a record of no producer");
    for (std::uint64_t unit = 0; unit < plan_.sizes[producer]; ++unit)
      check(payload_[starts_[slot] + unit] == value(producer), "a record is torn");
  }

  /// PutPath::put(), of so many records.
  bool put(std::uint64_t producer, std::uint64_t term, std::uint64_t count) {
    while (count > 0) {
      const Claims::Claim got = claim(producer, count, term);
      if (got.closed) return false;
      if (got.count == 0) {
        if (!wait_for_room(producer, term)) return false;
        continue;
      }
      write(got, producer, tag(term) | accepted_[producer]);
      accepted_[producer] += got.count;
      count -= got.count;
    }
    return true;
  }

  /// Returns the bit that marks a record of the second term.
  static std::uint64_t tag(std::uint64_t term) { return term << 16; }

  bool wait_for_room(std::uint64_t producer, std::uint64_t term) {
    const std::uint32_t key = ring_.room().prepare();
    if (ring_.is_over(term)) return false;
    if (!ring_.has_room(plan_.sizes[producer])) ring_.room().wait(key, Deadline::max());
    return true;
  }

  /// Takes a record; false at the end.
  bool take() {
    for (;;) {
      if (look()) break;
      if (at_end_) return false;
      ring_.want(next_);
      const std::uint32_t key = ring_.filled().prepare();
      if (look()) break;
      if (at_end_) return false;
      ring_.filled().wait(key, Deadline::max());
    }
    read([&](std::uint64_t producer) { return tag(epoch_) | got_[producer]; });
    ++got_[producers_[ring_.slot(next_)]];
    ring_.release(++next_);
    return true;
  }

  bool look() {
    const Ring::Extent extent = ring_.extent();
    check(extent.committed <= ring_.released() + plan_.capacity,
          "committed beyond the limit");
    check(extent.tail <= ring_.released() + plan_.capacity, "claimed beyond the limit");
    at_end_ = extent.closed && extent.committed == extent.tail;
    return extent.committed > next_;
  }

  const RingPlan plan_;
  Ring ring_;
  std::uint64_t* const payload_;
  std::uint64_t* const starts_;     // of the payload, by slot
  std::uint64_t* const producers_;  // by slot
  std::uint64_t next_ = kFirst;
  std::uint64_t epoch_ = 0;  // of the consumer
  std::uint64_t accepted_[2] = {}, got_[2] = {};
  bool at_end_ = false;
};

/// Threads 0 and 1 put, 2 takes.
class PutAndTakePayload : public PayloadWorld {
 public:
  static constexpr int kThreads = 3;
  using PayloadWorld::PayloadWorld;

  void run(int thread) {
    if (thread < 2)
      produce(static_cast<std::uint64_t>(thread));
    else
      take_all();
  }

  void end() {
    for (int p = 0; p < 2; ++p) {
      check(got_[p] == accepted_[p], "what was accepted is what was taken");
      const bool all = accepted_[p] == plan_.runs[p] * plan_.run;
      check(all || plan_.second_closes, "all is accepted");
    }
    check(ring_.tail() == next_ && ring_.closed(), "the ring is empty and closed");
    outcome(accepted_[0] << 8 | accepted_[1]);
  }

 private:
  void produce(std::uint64_t producer) {
    const std::uint64_t term = ring_.term();
    for (std::uint64_t r = 0; r < plan_.runs[producer]; ++r)
      if (!put(producer, term, plan_.run)) break;
    const bool last = ended_.fetch_add(1, std::memory_order_relaxed) == 1;
    if (!(plan_.second_closes ? producer == 1 : last)) return;
    why_closed_ = 1;
    ring_.close();
  }

  void take_all() {
    while (take()) continue;
    check(why_closed_ == 1, "what came before the close is not seen");
  }

  std::atomic<int> ended_{0};
  int why_closed_ = 0;  // plain: the close hands it on
};

/// No thread waits: 0 and 1 claim some times, whether there is room or not, and 2 looks
/// some times.
class ClaimPayloadAndLook : public PayloadWorld {
 public:
  static constexpr int kThreads = 3;
  using PayloadWorld::PayloadWorld;

  void run(int thread) {
    if (thread < 2) {
      const auto producer = static_cast<std::uint64_t>(thread);
      for (std::uint64_t n = 0; n < plan_.runs[producer]; ++n) {
        const Claims::Claim got = claim(producer, plan_.run, 0);
        check(got.count <= plan_.capacity, "a claim larger than the ring");
        if (got.count > 0) write(got, producer, accepted_[producer]);
        accepted_[producer] += got.count;
      }
      return;
    }
    for (std::uint64_t n = 0; n < plan_.keep; ++n)
      if (ring_.committed() > next_) {
        read([&](std::uint64_t producer) { return got_[producer]; });
        ++got_[producers_[ring_.slot(next_)]];
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
class PutPayloadAndReset : public PayloadWorld {
 public:
  static constexpr int kThreads = 3;
  using PayloadWorld::PayloadWorld;

  void run(int thread) {
    if (thread < 2) {
      const auto producer = static_cast<std::uint64_t>(thread);
      const std::uint64_t term = ring_.term();
      const Claims::Claim got = claim(producer, plan_.run, term);
      // Of a run all have the same value.
      for (std::uint64_t i = 0; i < got.count; ++i) {
        Claims::Claim one = got;
        one.first += i;
        one.count = 1;
        for (std::uint64_t before = 0; before < i; ++before)
          ring_.claims().take(one.place, plan_.sizes[producer]);
        write(one, producer, term);
      }
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

  void end() { outcome(next_ & 0xFF); }

 private:
  /// Closes, waits for those who had claimed, and looks at what they have put.
  void drain(std::uint64_t term) {
    ring_.close();
    while (ring_.committed() != ring_.tail())
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    for (; next_ < ring_.tail(); ++next_) read([&](std::uint64_t) { return term; });
  }
};

/// Thread 0 puts `runs[0]` records, ends the term, opens the next and puts `ahead`
/// there; the last thread takes. With three, thread 1 puts `runs[1]` into whatever term
/// it finds. As PutAhead, and with its flag.
template <int Threads>
class PutPayloadAhead : public PayloadWorld {
 public:
  static constexpr int kThreads = Threads;
  using PayloadWorld::PayloadWorld;

  void run(int thread) {
    if (thread == kThreads - 1)
      consume();
    else if (thread == 0)
      upstream();
    else
      put_noted(1, ring_.term(), plan_.runs[1]);
  }

  void end() {
    for (int p = 0; p < 2; ++p)
      for (int epoch = 0; epoch < 2; ++epoch)
        check(taken_[epoch][p] == put_[epoch][p], "an epoch is whole");
    check(put_[0][0] == plan_.runs[0] && put_[1][0] == plan_.ahead, "all is accepted");
    check(ring_.tail() == next_ && ring_.closed(), "the ring is empty and closed");
    outcome(taken_[0][1] << 4 | taken_[1][1]);
  }

 private:
  void upstream() {
    put_noted(0, ring_.term(), plan_.runs[0]);
    ring_.close();
    ring_.reopen_ahead();
    is_open_.store(true, std::memory_order_release);
    put_noted(0, ring_.term(), plan_.ahead);
    ring_.close();
  }

  void put_noted(std::uint64_t producer, std::uint64_t term, std::uint64_t records) {
    accepted_[producer] = 0;
    put(producer, term, records);
    put_[term][producer] = accepted_[producer];
  }

  void consume() {
    while (take()) continue;
    while (!is_open_.load(std::memory_order_acquire)) pause();
    note_taken();
    const std::uint64_t border = ring_.extent().tail;
    while (ring_.committed() < border) pause();
    ring_.release(next_ = border);
    ring_.cross_border();
    epoch_ = 1;
    while (take()) continue;
    note_taken();
  }

  void note_taken() {
    for (int p = 0; p < 2; ++p) {
      taken_[epoch_][p] = got_[p];
      got_[p] = 0;
    }
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  std::atomic<bool> is_open_{false};
  std::uint64_t put_[2][2] = {}, taken_[2][2] = {};  // of an epoch, by a producer
};

}  // namespace echobuf::model
