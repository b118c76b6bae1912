// The last loss of each record, as a consumer has reported it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace echobuf {

/// Reports may come from any thread, at any time; the consumer takes them between two
/// draws, so that all that it decides for a batch is by the same losses.
class Losses {
 public:
  static constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

  /// `records`: from the oldest that is needed to the newest, at most; 0 keeps none.
  /// Throws std::bad_alloc.
  explicit Losses(std::uint64_t records) : known_(records) {}

  static std::size_t bytes(std::uint64_t records) { return records * sizeof(Known); }

  /// Begins another epoch: nothing is known of its records.
  void clear() {
    std::lock_guard lock(mutex_);
    reports_.clear();
    std::fill(known_.begin(), known_.end(), Known{});
    any_ = false;
  }

  /// Reports `count` losses of records. Those that are not finite, and of records that
  /// have left, are passed over. `mean`: neighbours of the same record count as one,
  /// their mean. Throws std::bad_alloc.
  void report(const std::int64_t* records, const float* losses, std::size_t count,
              bool mean) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < count;) {
      std::size_t next = i + 1;
      double sum = losses[i];
      for (; mean && next < count && records[next] == records[i]; ++next)
        sum += static_cast<double>(losses[next]);
      const auto loss = static_cast<float>(sum / static_cast<double>(next - i));
      if (std::isfinite(loss))
        reports_.push_back({static_cast<std::uint64_t>(records[i]) + 1, loss});
      i = next;
    }
  }

  /// What was reported by now is known. For the consumer.
  void take() {
    std::lock_guard lock(mutex_);
    take_reports();
  }

  /// Writes the losses of `count` records from `first` on, kNone where none is known.
  /// Returns whether any was in this epoch.
  bool read(std::uint64_t first, std::uint64_t count, float* losses) const {
    std::lock_guard lock(mutex_);
    if (!any_ || known_.empty()) return false;
    std::uint64_t slot = first % known_.size();
    for (std::uint64_t i = 0; i < count;) {
      const std::uint64_t run = std::min(count - i, known_.size() - slot);
      for (std::uint64_t k = 0; k < run; ++k) {
        const Known& known = known_[slot + k];
        losses[i + k] = known.number == first + i + k + 1 ? known.loss : kNone;
      }
      i += run;
      slot = 0;
    }
    return true;
  }

  /// Returns those of `count` records from `first` on, with what was not yet taken; none,
  /// if there was no report.
  std::vector<float> save(std::uint64_t first, std::uint64_t count) {
    take();
    std::vector<float> losses(count);
    if (!read(first, count, losses.data())) losses.clear();
    return losses;
  }

  /// Knows what was saved.
  void load(std::uint64_t first, const std::vector<float>& losses) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (std::isfinite(losses[i])) reports_.push_back({first + i + 1, losses[i]});
    take_reports();
  }

 private:
  /// A record's last loss; its number counts from 1 on.
  struct Known {
    std::uint64_t number = 0;
    float loss = 0;
  };

  void take_reports() {
    if (known_.empty()) return reports_.clear();
    for (const Known& report : reports_) {
      Known& known = known_[(report.number - 1) % known_.size()];
      if (known.number <= report.number) known = report;  // else of a later record
    }
    any_ = any_ || !reports_.empty();
    reports_.clear();
  }

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Known> known_;
  std::vector<Known> reports_;  // that are not known yet
  bool any_ = false;
};

}  // namespace echobuf
