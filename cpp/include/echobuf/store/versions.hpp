// The versions that records were put with.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echobuf {

/// A number for each slot, written and read as the slot's record is: by the producer
/// that claimed it, and by the consumer once that is committed. A version is 0 unless
/// it was put.
class Versions {
 public:
  /// `slots`: as many as positions that are claimed and not released at most; 0 keeps
  /// none. Throws std::bad_alloc.
  explicit Versions(std::uint64_t slots) : versions_(slots) {}

  static std::size_t bytes(std::uint64_t slots) { return slots * sizeof(std::int64_t); }
  std::size_t bytes() const { return bytes(versions_.size()); }

  /// Writes those of `count` positions; null: 0 for all of them.
  void write(std::uint64_t first, std::uint64_t count, const std::int64_t* versions) {
    if (versions_.empty()) return;
    // Relaxed: a slot that holds another version comes here by the claim, behind it.
    if (versions == nullptr && !any_.load(std::memory_order_relaxed)) return;
    if (versions != nullptr && !any_.load(std::memory_order_relaxed))
      any_.store(true, std::memory_order_relaxed);
    std::uint64_t slot = first % versions_.size();
    for (std::uint64_t i = 0; i < count; ++i) {
      versions_[slot] = versions == nullptr ? 0 : versions[i];
      if (++slot == versions_.size()) slot = 0;
    }
  }

  /// Returns whether any record was put with one. For the consumer, of records that are
  /// committed.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  std::int64_t at(std::uint64_t position) const {
    return versions_[position % versions_.size()];
  }

  /// Those of `count` places after `position`, each below the number of slots.
  void copy(std::uint64_t position, const std::uint32_t* places, std::size_t count,
            std::int64_t* to) const {
    const std::uint64_t first = position % versions_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t slot = first + places[i];
      to[i] = versions_[slot < versions_.size() ? slot : slot - versions_.size()];
    }
  }

 private:
  std::vector<std::int64_t> versions_;
  std::atomic<bool> any_{false};
};

}  // namespace echobuf
