// The threads of a block as threads of the host, so that ThreadSanitizer sees what a
// kernel's barriers order and what they do not.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace echobuf::test {

/// One of them: see echobuf/draw/block_threads.hpp.
class ThreadAtOnce {
 public:
  ThreadAtOnce(std::uint32_t thread, std::barrier<>& barrier)
      : thread_(thread), barrier_(&barrier) {}

  template <class Step>
  void all(Step&& step) const {
    step(thread_);
    barrier_->arrive_and_wait();
  }
  template <class Step>
  void last(Step&& step) const {
    step(thread_);
  }

 private:
  std::uint32_t thread_;
  std::barrier<>* barrier_;
};

/// Each of `count` threads executes `block(threads)`.
template <class Block>
void run_at_once(std::uint32_t count, const Block& block) {
  std::barrier<> barrier(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::uint32_t thread = 0; thread < count; ++thread)
    threads.emplace_back([&, thread] { block(ThreadAtOnce(thread, barrier)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace echobuf::test
