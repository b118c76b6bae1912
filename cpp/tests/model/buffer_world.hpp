// Small programs on the whole Buffer, without the thread that assembles ahead.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "echobuf/buffer/buffer.hpp"
#include "explorer.hpp"

namespace echobuf::model {

struct BufferPlan {
  std::uint64_t examples = 1;  // of each producer
  bool fails = false;          // instead of closing
  bool downs = false;          // shut_down() instead
  std::uint64_t first = 0;     // examples of the epoch before one opened ahead
};

class BufferWorld {
 public:
  explicit BufferWorld(const BufferPlan& plan) : plan_(plan), buffer_(options()) {}
  BufferWorld(const BufferWorld&) = delete;

 protected:
  static BufferOptions options() {
    BufferOptions options;
    options.fields = {{sizeof(std::uint64_t), 1}};
    return options;
  }

  Status put(std::uint64_t id) {
    const SourceLeaf leaf{reinterpret_cast<const std::byte*>(&id), sizeof id};
    std::uint64_t done = 0;
    return buffer_.put(buffer_.term(), &leaf, 1, 0, done, Deadline::max(), nullptr);
  }

  /// Takes all that there is; a record is its producer and its number.
  Status take_all() {
    Batch batch;
    Status status = Status::kOk;
    while ((status = buffer_.next(batch, Deadline::max())) == Status::kOk) {
      std::uint64_t id = 0;
      std::memcpy(&id, batch.block.data(), sizeof id);
      check(id >> 8 < 2 && (id & 0xFF) == got_[id >> 8], "torn, lost or out of order");
      ++got_[id >> 8];
    }
    return status;
  }

  const BufferPlan plan_;
  Buffer buffer_;
  std::uint64_t got_[2] = {};
  Status last_ = Status::kOk;
};

/// The last thread takes, the others put, and the last of them ends it.
template <int Threads>
class PutAndNext : public BufferWorld {
 public:
  static constexpr int kThreads = Threads;
  using BufferWorld::BufferWorld;

  void run(int thread) {
    if (thread == kThreads - 1) {
      last_ = take_all();
      return;
    }
    const auto producer = static_cast<std::uint64_t>(thread);
    for (std::uint64_t n = 0; n < plan_.examples; ++n) put(producer << 8 | n);
    if (ended_.fetch_add(1, std::memory_order_relaxed) != kThreads - 2) return;
    if (plan_.fails)
      buffer_.fail();
    else if (plan_.downs)
      buffer_.shut_down();
    else
      buffer_.close();
  }

  void end() {
    if (plan_.fails || plan_.downs) {
      check(last_ == (plan_.fails ? Status::kFailed : Status::kClosed), "how it ends");
    } else {
      check(last_ == Status::kFinished, "it ends");
      for (int p = 0; p < kThreads - 1; ++p)
        check(got_[p] == plan_.examples, "all is served");
    }
    outcome(got_[0] << 8 | got_[1]);
  }

 private:
  std::atomic<int> ended_{0};
};

/// Thread 0 puts one example at any time, 1 waits for batches, or for the end, while 2
/// begins another epoch.
template <int Threads>
class PutAndRestart : public BufferWorld {
 public:
  static constexpr int kThreads = Threads;
  using BufferWorld::BufferWorld;

  void run(int thread) {
    if (thread == 0) {
      buffer_.reset(1);
      put(1 << 8);
      buffer_.close();
    } else if (thread == 1) {
      last_ = take_all();
    } else {
      put(0);
    }
  }

  void end() {
    check(last_ == Status::kFinished, "it ends");
    check(got_[1] == 1 && got_[0] <= 1, "the second epoch is whole");
    outcome(got_[0]);
  }
};

/// Thread 0 begins another epoch, puts an example and takes it, while 1 fails the term
/// that was open at first, and that alone.
class FailATermBesideRestart : public BufferWorld {
 public:
  static constexpr int kThreads = 2;
  explicit FailATermBesideRestart(const BufferPlan& plan)
      : BufferWorld(plan), first_(buffer_.term()) {}

  void run(int thread) {
    if (thread == 1) {
      buffer_.fail(first_);
      return;
    }
    buffer_.reset(1);
    put(0);
    buffer_.close();
    last_ = take_all();
  }

  void end() {
    check(last_ == Status::kFinished, "the second epoch has not failed");
    check(got_[0] == 1, "the second epoch is whole");
    outcome(0);
  }

 private:
  const std::uint64_t first_;
};

}  // namespace echobuf::model
