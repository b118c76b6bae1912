// The queues that are compared, behind one face: try_push and try_pop never wait, push
// and pop sleep until they can go on. A queue that cannot sleep, or takes one producer
// alone, says so.
#pragma once

#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <semaphore>
#include <vector>

#include "echobuf/store/host_store.hpp"
#include "echobuf/store/ring.hpp"

namespace hand_over {

inline constexpr std::size_t kCapacity = 1024;

template <std::size_t kBytes>
struct Record {
  std::int64_t stamp;  // ns
  std::byte rest[kBytes - sizeof(std::int64_t)];
};
template <>
struct Record<sizeof(std::int64_t)> {
  std::int64_t stamp;
};

/// echobuf: many producers, one consumer at a time, in the order of claims, bounded;
/// producers and the consumer can sleep; can be closed; records of any size.
template <class Item>
class EchobufRing {
 public:
  static constexpr bool kSleeps = true;
  static constexpr bool kManyProducers = true;

  bool try_push(const Item& item) {
    const auto claim = ring_.claim(1, term_);
    if (claim.count == 0) return false;
    const echobuf::SourceLeaf leaf{reinterpret_cast<const std::byte*>(&item), 0};
    store_.write(claim.first, 1, &leaf, 0, 0);
    ring_.commit(claim.first, 1);
    return true;
  }

  void push(const Item& item) {
    while (!try_push(item)) {
      const std::uint32_t key = ring_.room().prepare();
      if (!ring_.has_room()) ring_.room().wait(key, echobuf::Deadline::max());
    }
  }

  bool try_pop(Item& item) {
    if (read_ == ready_) {
      ready_ = ring_.committed();
      if (read_ == ready_) return false;
    }
    const auto view = store_.view(read_);
    echobuf::detail::copy_field(reinterpret_cast<std::byte*>(&item),
                                view.slots + view.slot(0) * store_.layout().stride(),
                                sizeof(Item));
    ++read_;
    // As a draw does: a run at a time, and before the producers run out of room.
    if (read_ == ready_ || read_ % (kCapacity / 8) == 0) ring_.release(read_);
    return true;
  }

  void pop(Item& item) {
    while (!try_pop(item)) {
      ring_.want(read_);
      const std::uint32_t key = ring_.filled().prepare();
      if (!ring_.is_committed(read_))
        ring_.filled().wait(key, echobuf::Deadline::max());
    }
  }

 private:
  echobuf::Ring ring_{kCapacity};
  echobuf::HostStore store_{echobuf::RecordLayout({{sizeof(Item), 1}}, false),
                            kCapacity};
  const std::uint64_t term_ = ring_.term();
  alignas(echobuf::kNoSharing) std::uint64_t read_ = 0;
  std::uint64_t ready_ = 0;
};

/// boost::lockfree::queue: many producers and consumers, in order, bounded. Nobody can
/// sleep. Records must be trivially copyable, of a size known to the compiler.
template <class Item>
class BoostQueue {
 public:
  static constexpr bool kSleeps = false;
  static constexpr bool kManyProducers = true;
  bool try_push(const Item& item) { return queue_.push(item); }
  bool try_pop(Item& item) { return queue_.pop(item); }
  void push(const Item& item) {
    while (!try_push(item)) {
    }
  }
  void pop(Item& item) {
    while (!try_pop(item)) {
    }
  }

 private:
  boost::lockfree::queue<Item, boost::lockfree::capacity<kCapacity>> queue_;
};

/// boost::lockfree::spsc_queue: one producer, one consumer. Nobody can sleep.
template <class Item>
class BoostSpsc : public BoostQueue<Item> {
 public:
  static constexpr bool kManyProducers = false;
  bool try_push(const Item& item) { return queue_.push(item); }
  bool try_pop(Item& item) { return queue_.pop(item); }

 private:
  boost::lockfree::spsc_queue<Item, boost::lockfree::capacity<kCapacity>> queue_;
};

/// boost::lockfree::queue between two semaphores: what it takes to sleep.
template <class Item>
class BoostSleeping {
 public:
  static constexpr bool kSleeps = true;
  static constexpr bool kManyProducers = true;
  bool try_push(const Item& item) {
    if (!room_.try_acquire()) return false;
    finish_push(item);
    return true;
  }
  bool try_pop(Item& item) {
    if (!filled_.try_acquire()) return false;
    finish_pop(item);
    return true;
  }
  void push(const Item& item) {
    room_.acquire();
    finish_push(item);
  }
  void pop(Item& item) {
    filled_.acquire();
    finish_pop(item);
  }

 private:
  void finish_push(const Item& item) {
    while (!queue_.push(item)) {
    }
    filled_.release();
  }
  void finish_pop(Item& item) {
    while (!queue_.pop(item)) {
    }
    room_.release();
  }
  boost::lockfree::queue<Item, boost::lockfree::capacity<kCapacity>> queue_;
  std::counting_semaphore<> room_{kCapacity}, filled_{0};
};

/// A mutex and two condition variables: all of the guarantees.
template <class Item>
class Locked {
 public:
  static constexpr bool kSleeps = true;
  static constexpr bool kManyProducers = true;
  bool try_push(const Item& item) { return push(item, false); }
  bool try_pop(Item& item) { return pop(item, false); }
  void push(const Item& item) { push(item, true); }
  void pop(Item& item) { pop(item, true); }

 private:
  bool push(const Item& item, bool sleep) {
    {
      std::unique_lock lock(mutex_);
      if (sleep) room_.wait(lock, [&] { return tail_ - head_ < kCapacity; });
      if (tail_ - head_ == kCapacity) return false;
      items_[tail_++ % kCapacity] = item;
    }
    filled_.notify_one();
    return true;
  }
  bool pop(Item& item, bool sleep) {
    {
      std::unique_lock lock(mutex_);
      if (sleep) filled_.wait(lock, [&] { return tail_ != head_; });
      if (tail_ == head_) return false;
      item = items_[head_++ % kCapacity];
    }
    room_.notify_one();
    return true;
  }
  std::mutex mutex_;
  std::condition_variable room_, filled_;
  std::vector<Item> items_ = std::vector<Item>(kCapacity);
  std::uint64_t head_ = 0, tail_ = 0;
};

}  // namespace hand_over
