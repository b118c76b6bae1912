// A small program on the ring of a device's window: records that differ in size pass
// through staging, which is smaller than the window. The second bound of claims. No
// thread takes: with one, which payload_world.hpp has, there are too many states. So
// the window has room for all records.
#pragma once

#include <cstdint>

#include "echobuf/cuda/staged_ring.hpp"
#include "ring_world.hpp"

namespace echobuf::model {

/// Thread 0 puts, as PutPath does; 1 sends, as Uploader does, and copies
/// from staging to the window by itself. Every slot and every unit of the payload is
/// written and read, in staging and in the window.
class PutThroughStaging {
 public:
  static constexpr int kThreads = 2;

  explicit PutThroughStaging(const RingPlan& plan)
      : plan_(plan),
        ring_(plan.capacity, plan.units, plan.staged_slots, plan.staged_units),
        starts_(new std::uint64_t[plan.capacity]()),
        staged_slots_(new std::uint64_t[plan.staged_slots]()),
        staged_(new std::uint64_t[plan.staged_units]()),
        slots_(new std::uint64_t[plan.capacity]()),
        payload_(new std::uint64_t[plan.units]()) {}
  PutThroughStaging(const PutThroughStaging&) = delete;

  void run(int thread) {
    if (thread == 0)
      put_all();
    else
      send_all();
  }

  void end() {
    check(sent_ == plan_.runs[0] * plan_.run, "what was put is what was sent");
    check(ring_.tail() == sent_ && ring_.closed(), "all is sent, and the ring closed");
    for (std::uint64_t i = 0; i < sent_; ++i) {
      check(slots_[i] == i + 1, "a slot is torn");
      for (std::uint64_t u = 0; u < size(); ++u)
        check(payload_[starts_[i] + u] == i + 1, "a record is torn");
    }
    outcome(claims_);
  }

 private:
  std::uint64_t size() const { return plan_.sizes[0]; }

  void put_all() {
    const std::uint64_t term = ring_.term();
    for (std::uint64_t r = 0; r < plan_.runs[0]; ++r) put(term, plan_.run);
    ring_.close();
  }

  void put(std::uint64_t term, std::uint64_t count) {
    Claims& claims = ring_.claims();
    while (count > 0) {
      const std::uint64_t sizes[] = {size(), size(), size()};
      check(count <= 3, "a run of more");
      const Claims::Claim got = ring_.claim(count, term, sizes);
      check(!got.closed, "closed by the producer alone");
      ++claims_;
      if (got.count == 0) {
        const std::uint32_t key = ring_.room().prepare();
        if (!claims.has_room(size())) ring_.room().wait(key, Deadline::max());
        continue;
      }
      std::uint64_t place = got.place;
      for (std::uint64_t i = got.first; i < got.first + got.count; ++i) {
        const std::uint64_t start = claims.take(place, size());
        starts_[i % plan_.capacity] = start;
        staged_slots_[i % plan_.staged_slots] = i + 1;
        for (std::uint64_t u = 0; u < size(); ++u)
          staged_[(start + u) % plan_.staged_units] = i + 1;
        claims.end_at(i, place);
      }
      ring_.commit(got.first, got.count);
      count -= got.count;
    }
  }

  void send_all() {
    for (;;) {
      const auto run = ring_.next_run(kMostOfRun);
      if (run.count > 0) {
        for (std::uint64_t i = run.first; i < run.first + run.count; ++i) copy(i);
        ring_.sent(run.first + run.count);
        ring_.arrived(run.first + run.count);
        sent_ = run.first + run.count;
        continue;
      }
      EventCount& news = ring_.news();
      const std::uint32_t key = news.prepare();
      if (ring_.next_run(kMostOfRun).count > 0) continue;
      if (ring_.end() == sent_) return;
      news.wait(key, Deadline::max());
    }
  }

  void copy(std::uint64_t i) {
    const std::uint64_t start = starts_[i % plan_.capacity];
    slots_[i % plan_.capacity] = staged_slots_[i % plan_.staged_slots];
    for (std::uint64_t u = 0; u < size(); ++u)
      payload_[start % plan_.units + u] = staged_[(start + u) % plan_.staged_units];
  }

  static constexpr std::uint64_t kMostOfRun = 2;

  const RingPlan plan_;
  cuda::StagedRing ring_;
  std::uint64_t* const starts_;        // of the payload, by the window's slot
  std::uint64_t* const staged_slots_;  // what the uploader reads
  std::uint64_t* const staged_;
  std::uint64_t* const slots_;  // of the window
  std::uint64_t* const payload_;
  std::uint64_t sent_ = 0;    // the uploader's
  std::uint64_t claims_ = 0;  // the producer's
};

}  // namespace echobuf::model
