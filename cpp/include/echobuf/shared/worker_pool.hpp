// Runs in the trainer: offers items to worker processes, each of which takes another
// when it has made one, and waits until they have entered the ring.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "echobuf/buffer/payload_measure.hpp"
#include "echobuf/options.hpp"
#include "echobuf/shared/collector.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/shared/record_sink.hpp"
#include "echobuf/shared/rows_area.hpp"
#include "echobuf/status.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// The trainer's end of a pool. One thread at a time begins terms and submits; a thread
/// of the pool lets items enter. An item that is slow holds up no other, up to
/// ItemBoard::kItems - 1 behind it, but for those that enter in order behind it.
class WorkerPool {
 public:
  /// `ahead`: items that are offered or made, for each worker. `keep`: see Collector.
  /// Throws std::invalid_argument for a ring of examples of one size that is not
  /// shared, std::bad_alloc, std::system_error.
  WorkerPool(std::unique_ptr<RecordSink> sink, std::uint64_t workers,
             std::uint64_t ahead, std::uint64_t keep = 0)
      : sink_(std::move(sink)),
        block_(workers),
        areas_(make_areas(*sink_, workers, ahead)),
        most_(std::clamp<std::uint64_t>(workers * ahead, 1, ItemBoard::kItems / 2)),
        intake_(*sink_, block_, areas_.get(), keep) {
    if (!memory()) throw std::invalid_argument("the buffer's slots are not shared");
    thread_ = std::thread([this] { collect(); });
  }

  /// Asks the workers to end, and does not wait for them: what they write from now on
  /// is not read.
  ~WorkerPool() {
    close();
    ending_.store(true, std::memory_order_release);
    block_.header().done.notify();
    thread_.join();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  const RecordSink& sink() const { return *sink_; }
  const ControlBlock& control_block() const { return block_; }
  /// Null for examples of one size.
  const RowsAreas* areas() const { return areas_.get(); }
  /// The memory that workers write examples into.
  const SharedMemory* memory() const {
    return areas_ ? &areas_->memory() : sink_->shared_memory();
  }

  /// See Collector.
  void begin(std::uint64_t term, std::optional<std::uint64_t> ordered) {
    intake_.begin(term, ordered);
  }
  std::uint64_t submitted() const { return intake_.submitted(); }
  auto entered(std::uint64_t term, std::uint64_t from) const {
    return intake_.entered(term, from);
  }

  /// Submits items `submitted` ... n-1 of `indices`, and counts them. kClosed: the term
  /// has ended.
  Status submit(std::uint64_t term, const std::int64_t* indices, std::uint64_t n,
                std::uint64_t& submitted, Deadline deadline) {
    while (submitted < n) {
      std::uint64_t count = 0;
      const Status free = wait_for(deadline, nullptr, [&]() -> Attempt {
        if (sink_->has_ended(term)) return {Status::kClosed};
        count = std::min(n - submitted, intake_.room(most_));
        if (count > 0) return {Status::kOk};
        return {Status::kTimeout, &collected_};
      });
      if (free != Status::kOk) return free;
      std::uint64_t position = 0;
      if (areas_) {
        sink_->begin_making(count);
      } else {
        const Status room = sink_->claim(term, position, count, deadline);
        if (room != Status::kOk) return room;
      }
      intake_.offer(indices + submitted, count, position);
      block_.board().work.notify();
      submitted += count;
    }
    return Status::kOk;
  }

  /// Revokes the items below `count`; workers finish the example that they are making.
  /// Ends the term first, as abandon() does: an item that is revoked may be marked as
  /// done unwritten, and must find a buffer that serves nothing more.
  void revoke(std::uint64_t term, std::uint64_t count) {
    abandon(term);
    intake_.revoke(count);
    wake_workers();
    collected_.notify();
  }

  /// Ends a term as failed, unless another one has begun.
  void abandon(std::uint64_t term) {
    sink_->fail(term);
    collected_.notify();  // a thread in submit() sees that the term has ended
  }

  bool is_wanted(std::uint64_t item) const {
    return item >= block_.board().revoked.load(std::memory_order_acquire);
  }

  /// Gives up the revoked items of a worker whose process has ended.
  void reap(std::uint64_t worker) {
    intake_.reap(worker);
    collected_.notify();
  }

  /// Waits until the items below `count` have entered, or were given up.
  Status wait_committed(std::uint64_t count, Deadline deadline) {
    return wait_for(deadline, nullptr, [&]() -> Attempt {
      if (intake_.oldest() >= count) return {Status::kOk};
      return {Status::kTimeout, &collected_};
    });
  }

  /// Returns the index of the example that a worker makes now.
  std::optional<std::int64_t> making(std::uint64_t worker) const {
    const auto item = block_.board().held(&ItemBoard::Item::item, worker);
    if (!item) return std::nullopt;
    return block_.board().at(*item).index;
  }

  /// Asks the workers to end.
  void close() {
    block_.header().closed.store(1, std::memory_order_release);
    wake_workers();
  }

 private:
  static std::unique_ptr<const RowsAreas> make_areas(const RecordSink& sink,
                                                     std::uint64_t workers,
                                                     std::uint64_t ahead) {
    const BufferOptions& options = sink.options();
    if (!options.lengths.any()) return nullptr;
    AreaRecord record(record_of(options), options.lengths.fields, sink.most_bytes());
    const AreaSizes sizes = record.sizes(mean_bytes(options), ahead);
    return std::make_unique<const RowsAreas>(workers, std::move(record), sizes);
  }

  void wake_workers() {
    block_.board().work.notify();
    for (std::uint64_t i = 0; i < block_.workers(); ++i) block_.queue(i).room.notify();
  }

  /// Runs on a thread; asleep while there is nothing.
  void collect() {
    // A worker that died between two instructions may have stored its progress and not
    // notified.
    constexpr auto kSlice = std::chrono::milliseconds(50);
    EventCount& done = block_.header().done;
    while (!ending_.load(std::memory_order_acquire)) {
      std::optional<std::uint32_t> key;
      if (!intake_.collect()) {
        key = done.prepare();
        if (!intake_.collect()) {
          if (!ending_.load(std::memory_order_acquire))
            done.wait(*key, Clock::now() + kSlice);
          continue;
        }
      }
      collected_.notify();
    }
  }

  const std::unique_ptr<RecordSink> sink_;
  const ControlBlock block_;
  const std::unique_ptr<const RowsAreas> areas_;
  const std::uint64_t most_;
  Collector intake_;
  EventCount collected_;
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: it uses the rest
};

}  // namespace echobuf::workers
