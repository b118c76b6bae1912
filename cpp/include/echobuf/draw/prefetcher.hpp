// A thread that assembles batches ahead, and the queue between it and the callers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/status.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Calls `make` on a background thread and keeps up to `depth` results. When `make`
/// ends otherwise than kOk the end is kept behind the results, and the thread rests
/// until restart(); kNoMemory is said once, and tried again when asked again. Neither
/// side ever touches Python.
template <class Item>
class Prefetcher {
 public:
  /// Fills the item, or says why not; kTimeout: asked again at once. May throw
  /// std::bad_alloc, having taken nothing.
  using Make = std::function<Status(Item&)>;

  /// Throws std::bad_alloc, and std::system_error where no thread can be started.
  Prefetcher(std::uint32_t depth, Make make)
      : depth_(depth), make_(std::move(make)), thread_([this] { run(); }) {}
  ~Prefetcher() { stop(); }

  /// The next item, or the end, or kTimeout if there is neither yet.
  Status pop(Item& item) {
    return pop(item, [](const Item&) { return true; });
  }
  /// The same; kResize: the next item does not fit, and is left where it is.
  template <class Fits>
  Status pop(Item& item, Fits&& fits) {
    std::lock_guard lock(mutex_);
    if (ready_.empty()) return end();
    if (!std::forward<Fits>(fits)(ready_.front())) return Status::kResize;
    item = std::move(ready_.front());
    ready_.pop_front();
    room_.notify_one();
    return Status::kOk;
  }

  bool ready() {
    std::lock_guard lock(mutex_);
    return !ready_.empty() || (end_.has_value() && !told_);
  }

  /// Why there is no next item: kOk if there is one, kTimeout if that is not known yet.
  Status peek() {
    std::lock_guard lock(mutex_);
    return ready_.empty() ? end_.value_or(Status::kTimeout) : Status::kOk;
  }

  EventCount& filled() { return filled_; }

  /// Holds the thread back: on return it is not inside `make`, and will not go in
  /// before restart(). Items made are dropped.
  void pause() {
    std::list<Item> dropped;
    std::unique_lock lock(mutex_);
    paused_ = true;
    idle_.wait(lock, [&] { return !making_; });
    dropped.swap(ready_);
    end_.reset();
    told_ = false;
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
  /// Why there is no item; with the lock.
  Status end() {
    if (!told_) {
      told_ = end_ == Status::kNoMemory;
      return end_.value_or(Status::kTimeout);
    }
    // One caller has had the error; there may be memory by now.
    told_ = false;
    end_.reset();
    room_.notify_one();
    return Status::kTimeout;
  }

  /// Memory of our own is found first: an item that was made is never given up.
  Status make(std::list<Item>& made) try {
    made.emplace_back();
    return make_(made.front());
  } catch (const std::bad_alloc&) {
    return Status::kNoMemory;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      room_.wait(lock, [&] {
        return stopped_ || (!paused_ && !end_ && ready_.size() < depth_);
      });
      if (stopped_) return;
      making_ = true;
      lock.unlock();
      std::list<Item> made;
      const Status status = make(made);
      lock.lock();
      making_ = false;
      idle_.notify_all();
      if (paused_ || status == Status::kTimeout) continue;
      if (status == Status::kOk)
        ready_.splice(ready_.end(), made);
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
  std::list<Item> ready_;
  std::optional<Status> end_;
  bool told_ = false;  // kNoMemory was
  bool making_ = false;
  bool paused_ = false;
  bool stopped_ = false;
  std::thread thread_;  // last: it starts when the rest is there
};

}  // namespace echobuf
