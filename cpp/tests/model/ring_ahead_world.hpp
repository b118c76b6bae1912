// Small programs on a ring whose next term is opened while the consumer is still in
// this one: Buffer::open_ahead() and go_ahead(), with a flag for the accounting's lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "ring_world.hpp"

namespace echobuf::model {

/// Thread 0 puts `runs[0]` records, ends the term, opens the next and puts `ahead`
/// there; the last thread takes. With three, thread 1 puts `runs[1]` into whatever
/// term it finds, or closes at any time.
template <int Threads>
class PutAhead : public RingWorld {
 public:
  static constexpr int kThreads = Threads;
  using RingWorld::RingWorld;

  void run(int thread) {
    if (thread == kThreads - 1)
      consume();
    else if (thread == 0)
      upstream();
    else if (plan_.second_closes)
      ring_.close();
    else
      put_noted(1, ring_.term(), plan_.runs[1]);
  }

  void end() {
    for (int p = 0; p < 2; ++p) {
      check(plan_.gives_up ? taken_[0][p] <= put_[0][p] : taken_[0][p] == put_[0][p],
            "the first epoch is whole");
      check(taken_[1][p] == put_[1][p], "the second epoch is whole");
    }
    if (!plan_.second_closes)
      check(put_[0][0] == plan_.runs[0] && put_[1][0] == plan_.ahead,
            "all is accepted");
    check(ring_.tail() == next_ && ring_.closed(), "the ring is empty and closed");
    outcome(taken_[0][0] << 12 | taken_[0][1] << 8 | taken_[1][0] << 4 | taken_[1][1]);
  }

 private:
  void upstream() {
    const std::uint64_t first = ring_.term();
    put_noted(0, first, plan_.runs[0]);
    ring_.close();
    if (!plan_.consumer_opens) open();
    while (ring_.term() == first) pause();
    put_noted(0, ring_.term(), plan_.ahead);
    ring_.close();
  }

  /// As with the accounting's lock: a thread that goes over to the term has seen it
  /// opened.
  void open() {
    ring_.reopen_ahead();
    is_open_.store(true, std::memory_order_release);
  }
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }

  void put_noted(std::uint64_t producer, std::uint64_t term, std::uint64_t records) {
    const std::uint64_t before = accepted_[producer];
    put(producer, term, 0, records, Deadline::max());
    put_[term != 0][producer] = accepted_[producer] - before;
  }

  void consume() {
    if (plan_.consumer_opens) {
      // As soon as upstream has ended; what it put is perhaps still to be taken.
      take_while([&] { return !ring_.closed(); });
      open();
    }
    if (plan_.gives_up)
      take_while([&] { return !is_open(); });
    else
      take_to_the_end();
    while (!is_open()) pause();
    note_taken();
    go_over();
    take_to_the_end();
    note_taken();
  }

  /// Takes what is there, without waiting for more.
  template <class GoesOn>
  void take_while(GoesOn&& goes_on) {
    while (goes_on())
      if (look() != Look::kRecord || take({}) != Look::kRecord) pause();
  }
  void take_to_the_end() {
    while (take(Deadline::max()) != Look::kEnd) continue;
  }

  void note_taken() {
    for (int p = 0; p < 2; ++p) {
      taken_[epoch_][p] = got_[p];
      got_[p] = 0;
    }
  }

  /// Buffer::go_ahead().
  void go_over() {
    const std::uint64_t border = ring_.extent().tail;
    while (ring_.committed() < border) pause();
    ring_.release(next_ = border);
    ring_.cross_border();
    epoch_ = 1;
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  std::atomic<bool> is_open_{false};
  std::uint64_t put_[2][2] = {}, taken_[2][2] = {};  // of an epoch, by a producer
};

}  // namespace echobuf::model
