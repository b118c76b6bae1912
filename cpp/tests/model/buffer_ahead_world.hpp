// Small programs on a Buffer whose next epoch is opened ahead.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "buffer_world.hpp"

namespace echobuf::model {

class BufferAheadWorld : public BufferWorld {
 public:
  using BufferWorld::BufferWorld;

 protected:
  /// An epoch, and the next opened behind it; that ends as the plan says.
  void put_both() {
    for (std::uint64_t n = 0; n < plan_.first; ++n) put(n);
    buffer_.close();
    check(buffer_.open_ahead(1), "an epoch that has ended lets the next begin");
    for (std::uint64_t n = 0; n < plan_.examples; ++n) put(1 << 8 | n);
    if (plan_.fails)
      buffer_.fail();
    else if (plan_.downs)
      buffer_.shut_down();
    else
      buffer_.close();
  }

  void check_last() {
    const Status how = plan_.fails   ? Status::kFailed
                       : plan_.downs ? Status::kClosed
                                     : Status::kFinished;
    check(last_ == how, "how the second epoch ends");
    check(got_[1] == plan_.examples || (how != Status::kFinished && got_[1] == 0),
          "the second epoch is whole");
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
};

/// Thread 0 puts both epochs; 1 serves the first out and goes over.
class PutAndGoAhead : public BufferAheadWorld {
 public:
  static constexpr int kThreads = 2;
  using BufferAheadWorld::BufferAheadWorld;

  void run(int thread) {
    if (thread == 0) return put_both();
    first_ = take_all();
    check(got_[1] == 0, "nothing of the second epoch is in the first");
    while (!buffer_.go_ahead()) pause();
    last_ = take_all();
  }

  void end() {
    // Whatever becomes of the second epoch, but for a shutdown.
    if (!plan_.downs || first_ == Status::kFinished)
      check(first_ == Status::kFinished && got_[0] == plan_.first,
            "the first epoch is whole");
    check_last();
    outcome(got_[0] << 8 | got_[1]);
  }

 private:
  Status first_ = Status::kOk;
};

/// The same, but thread 2 goes over at any time, under the hands of the consumer.
class PutAndGoAheadAtAnyTime : public BufferAheadWorld {
 public:
  static constexpr int kThreads = 3;
  using BufferAheadWorld::BufferAheadWorld;

  void run(int thread) {
    if (thread == 0) return put_both();
    if (thread == 2) {
      while (!buffer_.go_ahead()) pause();
      gone_.store(true, std::memory_order_release);
      return;
    }
    last_ = take_all();  // of both, or of the first alone
    while (!gone_.load(std::memory_order_acquire)) pause();
    last_ = take_all();
  }

  void end() {
    check(got_[0] <= plan_.first, "nothing is there twice");
    check_last();
    outcome(got_[0] << 8 | got_[1]);
  }

 private:
  std::atomic<bool> gone_{false};
};

/// Thread 0 opens an epoch ahead and puts more than fits; nobody takes, 1 shuts down.
class ShutDownBesideOpening : public BufferAheadWorld {
 public:
  static constexpr int kThreads = 2;
  using BufferAheadWorld::BufferAheadWorld;

  void run(int thread) {
    if (thread == 1) return buffer_.shut_down();
    buffer_.close();
    opened_ = buffer_.open_ahead(1);
    Status status = Status::kOk;
    for (std::uint64_t n = 0; status == Status::kOk; ++n) status = put(1 << 8 | n);
    check(status == Status::kClosed, "how puts end");
  }

  void end() { outcome(opened_); }

 private:
  bool opened_ = false;
};

/// Thread 0 opens an epoch ahead, whose upstream fails, and begins another instead; 1
/// draws once, in the first epoch or in the last, and neither has failed.
class ResetOfAFailureAhead : public BufferAheadWorld {
 public:
  static constexpr int kThreads = 2;
  using BufferAheadWorld::BufferAheadWorld;

  void run(int thread) {
    if (thread == 0) {
      buffer_.close();
      check(buffer_.open_ahead(1), "an epoch that has ended lets the next begin");
      buffer_.fail();
      buffer_.reset(2);
      buffer_.close();
      return;
    }
    last_ = take_all();
  }

  void end() {
    check(last_ == Status::kFinished, "a failure is its own epoch's");
    outcome(0);
  }
};

}  // namespace echobuf::model
