// Upstream: threads that make fresh examples, slowly, and put them into the buffer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "digits.hpp"
#include "echobuf/echobuf.hpp"

/// Makes examples on several threads at once and puts them in the order of their
/// numbers. Only a run that shall resume exactly needs that order; else each thread
/// would put what it has as soon as it is there.
class Upstream {
 public:
  Upstream(echobuf::Buffer& buffer, const DigitMaker& maker, std::uint64_t first,
           std::uint64_t end, int threads)
      : buffer_(buffer), maker_(maker), end_(end), next_(first), turn_(first) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Upstream() {
    buffer_.shut_down();  // else a put that waits for room would wait for ever
    for (std::thread& thread : threads_) thread.join();
  }
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

 private:
  void work() {
    for (std::uint64_t index; take(index);) {
      // What a disk, a decoder or a network would cost.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      const Digit digit = maker_.make(index);
      if (!put_in_turn(digit, index)) return;
    }
  }

  bool take(std::uint64_t& index) {
    const std::lock_guard lock(mutex_);
    index = next_;
    if (next_ < end_) ++next_;
    return index < end_;
  }

  bool put_in_turn(const Digit& digit, std::uint64_t index) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == index || stopped_; });
    if (stopped_) return false;
    lock.unlock();
    // Waits while the ring is full. kClosed: training has ended before upstream did.
    const echobuf::SourceLeaf leaves[] = {
        echobuf::SourceLeaf::of(digit.pixels.data(), digit.pixels.size()),
        echobuf::SourceLeaf::of(&digit.label)};
    const bool done = buffer_.put(leaves) == echobuf::Status::kOk;
    lock.lock();
    ++turn_;
    stopped_ = !done;
    // The end of upstream: what is resident is still served as often as is due.
    if (turn_ == end_) buffer_.close();
    changed_.notify_all();
    return done;
  }

  echobuf::Buffer& buffer_;
  const DigitMaker& maker_;
  const std::uint64_t end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_;  // to be made
  std::uint64_t turn_;  // to be put
  bool stopped_ = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};
