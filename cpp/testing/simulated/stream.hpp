// A stream: a queue of operations, and the thread that executes them in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "clock.hpp"

namespace echobuf::simulated {

class Stream;

/// A place in a stream's queue: after the operation with that number.
struct Position {
  std::shared_ptr<Stream> stream;
  std::uint64_t sequence;

  bool done() const;
  void wait() const;
};

struct Operation {
  LabelPointer label;
  VectorClock clock;
  std::vector<Position> waits;            // what must be done before it begins
  std::function<void(const Actor&)> run;  // may be empty
};

inline constexpr std::size_t kMostQueued = 1024;  // operations of a stream

/// The queue alone. World decides which operations enter it, and in which order.
class Stream {
 public:
  /// Executes an operation: on the stream's thread, after its waits.
  using Execute = std::function<void(const Operation&)>;

  Stream(std::size_t number, Execute execute);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::size_t number() const { return number_; }
  void push(Operation operation);
  void hold(bool held);
  bool full() const;
  void wait_for_room() const;

  bool done(std::uint64_t sequence) const;
  void wait(std::uint64_t sequence) const;

  /// No more operations come; those that are there are executed. Ends a hold.
  void close();
  /// True if the thread of a closed stream has nothing left to do.
  bool finished() const;
  void join();

 private:
  void work();

  const std::size_t number_;
  const Execute execute_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::uint64_t completed_ = 0;
  bool held_ = false;
  bool closed_ = false;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace echobuf::simulated
