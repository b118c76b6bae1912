// A thread that assembles batches ahead, and the queue between it and the callers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"

namespace echobuf {

/// Calls `make` on a thread of its own and keeps up to `depth` results. When `make`
/// ends otherwise than kOk the end is kept behind the results, and the thread rests
/// until restart(). Neither side ever touches Python.
template <class Item>
class Prefetcher {
 public:
  /// Fills the item, or says why not; kTimeout: asked again at once.
  using Make = std::function<Status(Item&)>;

  Prefetcher(std::uint32_t depth, Make make)
      : depth_(depth), make_(std::move(make)), thread_([this] { run(); }) {}
  ~Prefetcher() { stop(); }

  /// The next item, or the end, or kTimeout if there is neither yet.
  Status pop(Item& item) {
    std::lock_guard lock(mutex_);
    if (ready_.empty()) return end_.value_or(Status::kTimeout);
    item = std::move(ready_.front());
    ready_.pop_front();
    room_.notify_one();
    return Status::kOk;
  }

  bool ready() {
    std::lock_guard lock(mutex_);
    return !ready_.empty() || end_.has_value();
  }

  EventCount& filled() { return filled_; }

  /// Holds the thread back: on return it is not inside `make`, and will not go in
  /// before restart(). Items made are dropped.
  void pause() {
    std::deque<Item> dropped;
    std::unique_lock lock(mutex_);
    paused_ = true;
    idle_.wait(lock, [&] { return !making_; });
    dropped.swap(ready_);
    end_.reset();
  }

  void restart() {
    std::lock_guard lock(mutex_);
    paused_ = false;
    room_.notify_one();
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      room_.notify_one();
    }
    std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] {
        return stopped_ || (!paused_ && !end_ && ready_.size() < depth_);
      });
      if (stopped_) return;
      making_ = true;
      lock.unlock();
      Item item{};
      const Status status = make_(item);
      lock.lock();
      making_ = false;
      idle_.notify_all();
      if (paused_ || status == Status::kTimeout) continue;
      if (status == Status::kOk)
        ready_.push_back(std::move(item));
      else
        end_ = status;
      filled_.notify();
    }
  }

  const std::uint32_t depth_;
  const Make make_;
  std::mutex mutex_;
  std::mutex joining_;  // stop() may be called by several
  std::condition_variable room_;
  std::condition_variable idle_;
  EventCount filled_;
  std::deque<Item> ready_;
  std::optional<Status> end_;
  bool making_ = false;
  bool paused_ = false;
  bool stopped_ = false;
  std::thread thread_;  // last: it starts when the rest is there
};

}  // namespace echobuf
