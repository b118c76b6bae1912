// A small program on the ring of a device's window: records that lie on the device are
// written there by their producer, those of the host pass through staging.
#pragma once

#include <algorithm>
#include <cstdint>

#include "echobuf/cuda/staged_ring.hpp"
#include "ring_world.hpp"

namespace echobuf::model {

/// Thread 0 puts, as DevicePuts does, and every `keep`-th record from the host, as
/// PutPath does; 1 sends and lands, as Uploader does, and takes, as a draw does. The
/// window has fewer slots than there are records.
class PutOnDevice {
 public:
  static constexpr int kThreads = 2;

  explicit PutOnDevice(const RingPlan& plan)
      : plan_(plan),
        ring_(plan.capacity, plan.staged_slots),
        is_on_host_(new std::uint64_t[plan.capacity]()),
        staged_(new std::uint64_t[plan.staged_slots]()),
        slots_(new std::uint64_t[plan.capacity]()) {}
  PutOnDevice(const PutOnDevice&) = delete;

  void run(int thread) {
    if (thread == 0)
      put_all();
    else
      take_all();
  }

  void end() {
    check(taken_ == plan_.runs[0], "what was put is what was taken");
    check(ring_.tail() == taken_ && ring_.closed(), "all is sent, and the ring closed");
    outcome(claims_);
  }

 private:
  void put_all() {
    const std::uint64_t term = ring_.term();
    for (std::uint64_t r = 0; r < plan_.runs[0]; ++r) put(term, r);
    ring_.close();
  }

  void put(std::uint64_t term, std::uint64_t r) {
    const bool on_host = plan_.keep > 0 && r % plan_.keep == plan_.keep - 1;
    for (;;) {
      const Claims::Claim got = on_host
                                    ? ring_.claim(1, term)
                                    : ring_.claim_on_device(1, term, nullptr, false);
      check(!got.closed, "closed by the producer alone");
      ++claims_;
      if (got.count == 0) {
        wait(on_host);
        continue;
      }
      is_on_host_[got.first % plan_.capacity] = on_host ? 1 : 0;
      std::uint64_t& at = on_host ? staged_[got.first % plan_.staged_slots]
                                  : slots_[got.first % plan_.capacity];
      at = r + 1;
      ring_.commit(got.first, 1);
      return;
    }
  }

  void wait(bool on_host) {
    EventCount& room = on_host ? ring_.room() : ring_.room_on_device();
    const std::uint32_t key = room.prepare();
    if (on_host ? ring_.has_room() : ring_.has_room_on_device(0, false)) return;
    if (!on_host && &ring_.room_on_device() != &room) return;
    room.wait(key, Deadline::max());
  }

  void take_all() {
    for (;;) {
      const auto run = ring_.next_run(1);
      if (run.count > 0) {
        const std::uint64_t slot = run.first % plan_.capacity;
        if (is_on_host_[slot] != 0)
          slots_[slot] = staged_[run.first % plan_.staged_slots];
        ring_.sent(run.first + 1);
        ring_.arrived(run.first + 1);
        check(ring_.extent().committed == run.first + 1, "it was sent");
        check(slots_[slot] == run.first + 1, "a record is torn");
        taken_ = run.first + 1;
        ring_.release(taken_);
        continue;
      }
      EventCount& news = ring_.news();
      const std::uint32_t key = news.prepare();
      if (ring_.next_run(1).count > 0) continue;
      if (ring_.end() == taken_) return;
      news.wait(key, Deadline::max());
    }
  }

  const RingPlan plan_;
  cuda::StagedRing ring_;
  std::uint64_t* const is_on_host_;  // by the window's slot
  std::uint64_t* const staged_;      // what the uploader reads
  std::uint64_t* const slots_;       // of the window
  std::uint64_t taken_ = 0;          // of thread 1
  std::uint64_t claims_ = 0;         // of thread 0
};

}  // namespace echobuf::model
