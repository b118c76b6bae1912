// Losses that are computed on the device, on their way to the consumer.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/draw/late_reports.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/losses.hpp"
#include "echobuf/transform/number.hpp"

namespace echobuf::cuda {

enum class LossType : std::uint8_t { kHalf, kBfloat, kFloat, kDouble };

inline std::size_t bytes_of(LossType type) {
  if (type == LossType::kDouble) return sizeof(double);
  return type == LossType::kFloat ? sizeof(float) : sizeof(std::uint16_t);
}

/// Losses of `count` records in the device's memory, without gaps: one each, or one for
/// all.
struct DeviceLosses {
  Address records;  // int64
  Address losses;
  LossType type;
  std::size_t count;
  bool one_for_all;
};

/// A report as it is in host memory. `batches`: how many are handed out before it
/// counts, 1 for the next one.
struct HostLosses {
  std::uint64_t batches;
  std::vector<std::int64_t> records;
  std::vector<float> losses;
};

/// A report is copied to pinned memory on the caller's stream, and read there once it
/// counts; the host waits then at most for what was enqueued kLag batches before.
class LossReports final : public LateReports {
 public:
  /// Batches that are handed out from a report to the first one that it counts for.
  static constexpr std::uint64_t kLag = 2;

  /// `mean`: neighbours of the same record count as one, see Losses.
  LossReports(SharedContext context, bool mean)
      : context_(std::move(context)), mean_(mean) {}

  /// Waits for copies that are on their way to memory that is freed now.
  ~LossReports() override {
    try {
      const DeviceContext::RelaxedScope scope(*context_, std::nothrow);
      for (const Slot& slot : slots_)
        if (slot.copied) driver().calls().event_synchronize(slot.copied->get());
    } catch (const Error&) {  // then nothing is on its way
    }
  }

  // ---- for any thread

  /// Enqueues the copies on `stream`, behind what computes the losses, and waits for
  /// nothing. False where the stream is being captured: then nothing was reported.
  /// Throws Error, std::bad_alloc.
  bool report(const DeviceLosses& reported, StreamHandle stream) {
    const std::lock_guard lock(mutex_);
    const DeviceContext::Scope scope(*context_);
    if (driver().capture_of(stream)) return false;
    if (reported.count == 0) return true;
    const std::size_t records = reported.count * sizeof(std::int64_t);
    const std::size_t count = reported.one_for_all ? 1 : reported.count;
    const std::size_t losses = count * bytes_of(reported.type);
    Slot& slot = find_slot(records + losses);
    auto* const to = static_cast<std::byte*>(slot.memory->get());
    slot.used = true;
    driver().copy_to_host(static_cast<void*>(to), reported.records, records, stream);
    driver().copy_to_host(static_cast<void*>(to + records), reported.losses, losses,
                          stream);
    driver().event_record(slot.copied->get(), stream);
    queue_.push_back({due(kLag), &slot, reported, {}, {}});
    return true;
  }

  /// Reports what is in host memory: as after a state was loaded.
  void report(HostLosses reported) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({due(reported.batches),
                      nullptr,
                      {},
                      std::move(reported.records),
                      std::move(reported.losses)});
  }

  /// Returns the reports that do not count yet, and waits for them.
  std::vector<HostLosses> pending() {
    const std::lock_guard lock(mutex_);
    std::vector<HostLosses> all;
    for (Entry& entry : queue_) {
      fetch(entry);
      all.push_back({entry.due - handed_out(), entry.records, entry.losses});
    }
    return all;
  }

  /// Returns whether the next batch would wait for a report.
  bool waits() {
    if (!any_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : queue_) {
      if (!counts(entry)) return false;
      if (!entry.slot) continue;
      const DeviceContext::RelaxedScope scope(*context_);
      if (driver().calls().event_query(entry.slot->copied->get()) != kSuccess)
        return true;
    }
    return false;
  }

  /// Of pinned memory.
  std::size_t bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const Slot& slot : slots_) bytes += slot.bytes;
    return bytes;
  }

  // ---- the consumer

  /// A batch was handed out.
  void hand_out() { batches_.fetch_add(1, std::memory_order_relaxed); }

  void take(Losses& losses, std::uint64_t end) override {
    if (!any_.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(mutex_);
    for (; !queue_.empty() && counts(queue_.front()); queue_.pop_front()) {
      Entry& entry = queue_.front();
      fetch(entry);
      losses.report(entry.records.data(), entry.losses.data(), entry.records.size(),
                    end, mean_);
    }
    any_.store(!queue_.empty(), std::memory_order_relaxed);
  }

  void forget() override {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    any_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kSlots = 8;

  /// Pinned memory of a report: its records, and then its losses.
  struct Slot {
    std::unique_ptr<PinnedMemory> memory;
    std::unique_ptr<Event> copied;
    std::size_t bytes = 0;
    bool used = false;  // by an entry, or by a copy that may be on its way
  };
  struct Entry {
    std::uint64_t due;  // the batch that it counts for, from 1 on
    Slot* slot;         // null: what follows is there
    DeviceLosses from;
    std::vector<std::int64_t> records;
    std::vector<float> losses;
  };

  const Driver& driver() const { return context_->driver(); }
  std::uint64_t handed_out() const { return batches_.load(std::memory_order_relaxed); }
  bool counts(const Entry& entry) const { return entry.due <= handed_out() + 1; }
  std::uint64_t due(std::uint64_t batches) {
    any_.store(true, std::memory_order_relaxed);
    return handed_out() + batches;
  }

  /// A slot with so many bytes that nothing uses. Where all are in use, the oldest
  /// report is fetched.
  Slot& find_slot(std::size_t bytes) {
    if (slots_.size() < kSlots && is_in_use()) {
      slots_.emplace_back();
      return made(slots_.back(), bytes);
    }
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    for (Entry& entry : queue_)
      if (entry.slot == &slot) fetch(entry);
    await(slot);  // of a report that was dropped
    return made(slot, bytes);
  }
  bool is_in_use() const { return slots_.empty() || slots_[next_].used; }
  Slot& made(Slot& slot, std::size_t bytes) {
    if (!slot.copied) slot.copied = make_event(context_);
    if (slot.bytes >= bytes && slot.memory) return slot;
    slot.memory.reset();
    slot.bytes = 0;
    slot.memory = make_pinned_memory(context_, std::max<std::size_t>(bytes, 1));
    slot.bytes = bytes;
    return slot;
  }

  void await(Slot& slot) const {
    if (!slot.used) return;
    const DeviceContext::RelaxedScope scope(*context_);
    driver().event_synchronize(slot.copied->get());
    slot.used = false;
  }

  /// Reads a report's slot, once it is copied, which is then free.
  void fetch(Entry& entry) const {
    if (!entry.slot) return;
    await(*entry.slot);
    const DeviceLosses& from = entry.from;
    const auto* const bytes = static_cast<const std::byte*>(entry.slot->memory->get());
    const std::size_t records = from.count * sizeof(std::int64_t);
    const std::size_t count = from.one_for_all ? 1 : from.count;
    if (const NoteHostAccess note = driver().note_host_access())
      note(bytes, records + count * bytes_of(from.type), 0);
    entry.records.resize(from.count);
    if (records > 0) std::memcpy(entry.records.data(), bytes, records);
    entry.losses.resize(from.count);
    for (std::size_t i = 0; i < count; ++i)
      entry.losses[i] = loss_at(bytes + records, from.type, i);
    if (from.one_for_all && from.count > 0)
      entry.losses.assign(from.count, entry.losses[0]);
    entry.slot = nullptr;
  }

  static float loss_at(const std::byte* losses, LossType type, std::size_t i) {
    const std::byte* const at = losses + i * bytes_of(type);
    switch (type) {
      case LossType::kHalf:
        return transform::float_of_half(read<std::uint16_t>(at));
      case LossType::kBfloat:
        return transform::float_of_bfloat(read<std::uint16_t>(at));
      case LossType::kFloat:
        return read<float>(at);
      case LossType::kDouble:
        break;
    }
    return static_cast<float>(read<double>(at));
  }
  template <class T>
  static T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }

  const SharedContext context_;
  const bool mean_;
  std::atomic<std::uint64_t> batches_{0};  // handed out
  std::atomic<bool> any_{false};  // in the queue; relaxed: a hint for the consumer

  std::mutex mutex_;  // guards what follows
  std::deque<Entry> queue_;
  std::deque<Slot> slots_;  // their addresses stay
  std::size_t next_ = 0;
};

/// None, where passes do not go by losses.
inline std::unique_ptr<LossReports> make_reports(const BufferOptions& options,
                                                 const SharedContext& context) {
  if (!options.thins()) return nullptr;
  return std::make_unique<LossReports>(context, options.ragged);
}

}  // namespace echobuf::cuda
