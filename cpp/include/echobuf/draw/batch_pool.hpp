// Batch memory that is used again: the caller owns a block until it is dropped, then it
// waits here for the next batch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "echobuf/process.hpp"
#include "echobuf/store/memory.hpp"

namespace echobuf {

class BatchPool;

/// One batch's memory. Goes back to its pool, from whatever thread, when destroyed.
class Block {
 public:
  Block() = default;
  Block(std::shared_ptr<BatchPool> pool, std::unique_ptr<Memory> memory)
      : pool_(std::move(pool)), memory_(std::move(memory)) {}
  ~Block();

  Block(Block&& other) noexcept = default;
  Block& operator=(Block&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(memory_, other.memory_);
    std::swap(out_, other.out_);
    return *this;
  }

  /// From now on it is the caller's, and not counted as the pool's.
  void hand_out();

  std::byte* data() const { return memory_->data(); }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  std::shared_ptr<BatchPool> pool_;
  std::unique_ptr<Memory> memory_;
  bool out_ = false;
};

inline std::unique_ptr<Memory> make_host_memory(std::size_t bytes) {
  return std::make_unique<HostMemory>(bytes);
}

/// Blocks are taken under a lock, and given back without one, since a thread
/// of another library (JAX) may drop a batch, and must never wait.
class BatchPool : public std::enable_shared_from_this<BatchPool> {
 public:
  /// Keeps at most `keep` idle blocks of `bytes` each; more are given back to the
  /// system, so that a caller who once held many batches does not hold them for ever.
  /// `make`: a block of memory; throws where there is none.
  using Make = std::function<std::unique_ptr<Memory>(std::size_t bytes)>;
  BatchPool(std::size_t bytes, std::size_t keep, Make make = make_host_memory)
      : bytes_(bytes), keep_(keep), make_(std::move(make)) {}

  BatchPool(const BatchPool&) = delete;
  BatchPool& operator=(const BatchPool&) = delete;
  ~BatchPool() {
    free_list(returned_.load(std::memory_order_acquire));
    free_list(idle_);
  }

  /// Keeps no idle block from now on: the buffer goes, and a caller may hold one of its
  /// batches for long, and with it this pool.
  void close() {
    free_list(returned_.exchange(closed(), std::memory_order_acq_rel));
    const std::lock_guard lock(mutex_);
    free_list(std::exchange(idle_, nullptr));
  }

  /// Throws std::bad_alloc.
  Block take() {
    if (std::unique_ptr<Memory> memory = take_idle())
      return Block(shared_from_this(), std::move(memory));
    auto memory = make_(bytes_);
    held_.fetch_add(memory->bytes(), std::memory_order_relaxed);
    return Block(shared_from_this(), std::move(memory));
  }

  /// The same of at least `bytes`, where batches differ in size: idle blocks that are
  /// smaller are given back to the system, so that soon all are large enough.
  Block take(std::size_t bytes) {
    while (std::unique_ptr<Memory> memory = take_idle()) {
      if (memory->bytes() >= bytes) return Block(shared_from_this(), std::move(memory));
      held_.fetch_sub(memory->bytes(), std::memory_order_relaxed);
    }
    auto memory = make_(bytes + bytes / 8);
    held_.fetch_add(memory->bytes(), std::memory_order_relaxed);
    return Block(shared_from_this(), std::move(memory));
  }

  /// Bytes in blocks, idle and in use, but for those handed out.
  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  std::size_t block_bytes() const { return bytes_; }

  bool of_this_process() const { return generation_ == fork_generation(); }

  void hand_out(const Memory& memory) {
    held_.fetch_sub(memory.bytes(), std::memory_order_relaxed);
  }

  void give_back(std::unique_ptr<Memory> memory, bool was_out) {
    if (!keep_one_more()) {
      if (!was_out) held_.fetch_sub(memory->bytes(), std::memory_order_relaxed);
      return;
    }
    if (was_out) held_.fetch_add(memory->bytes(), std::memory_order_relaxed);
    Memory* last = returned_.load(std::memory_order_relaxed);
    do {
      if (last == closed()) {
        held_.fetch_sub(memory->bytes(), std::memory_order_relaxed);
        return;
      }
      memory->next = last;
      // Release: what its owner did with the block comes before the next one's use.
    } while (!returned_.compare_exchange_weak(
        last, memory.get(), std::memory_order_release, std::memory_order_relaxed));
    static_cast<void>(memory.release());
  }

 private:
  /// In place of a list of blocks, after close().
  Memory* closed() { return reinterpret_cast<Memory*>(this); }

  void free_list(Memory* list) {
    while (list && list != closed()) {
      held_.fetch_sub(list->bytes(), std::memory_order_relaxed);
      delete std::exchange(list, list->next);
    }
  }

  /// The block given back last, which is still warm in the caches. Blocks leave
  /// `returned_` all at once, so none can come back between a look and an exchange.
  std::unique_ptr<Memory> take_idle() {
    const std::lock_guard lock(mutex_);
    Memory* news = returned_.load(std::memory_order_relaxed);
    while (news && news != closed() &&
           !returned_.compare_exchange_weak(news, nullptr, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
    }
    if (news && news != closed()) {
      Memory* last = news;
      while (last->next) last = last->next;
      last->next = std::exchange(idle_, news);
    }
    if (!idle_) return nullptr;
    std::unique_ptr<Memory> taken(idle_);
    idle_ = std::exchange(taken->next, nullptr);
    idle_count_.fetch_sub(1, std::memory_order_relaxed);
    return taken;
  }

  bool keep_one_more() {
    std::size_t count = idle_count_.load(std::memory_order_relaxed);
    while (count < keep_)
      if (idle_count_.compare_exchange_weak(count, count + 1,
                                            std::memory_order_relaxed))
        return true;
    return false;
  }

  const std::size_t bytes_;
  const std::size_t keep_;
  const Make make_;
  const std::uint32_t generation_ = fork_generation();
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> idle_count_{0};
  std::atomic<Memory*> returned_{nullptr};  // lists: the last comes first
  std::mutex mutex_;
  Memory* idle_ = nullptr;
};

inline void Block::hand_out() {
  if (out_) return;
  out_ = true;
  pool_->hand_out(*memory_);
}

inline Block::~Block() {
  if (!memory_) return;
  if (pool_->of_this_process()) {
    pool_->give_back(std::move(memory_), out_);
    return;
  }
  // A forked child does not take from the pool again: memory and pool are left as
  // the parent's. What is moved into a union is never destroyed.
  static_cast<void>(memory_.release());
  union Forgotten {
    std::shared_ptr<BatchPool> pool;
    explicit Forgotten(std::shared_ptr<BatchPool>&& p) : pool(std::move(p)) {}
    ~Forgotten() {}  // NOLINT(modernize-use-equals-default): that would be deleted
  };
  const Forgotten forgotten(std::move(pool_));
}

}  // namespace echobuf
