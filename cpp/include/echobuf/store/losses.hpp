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
  explicit Losses(std::uint64_t records) : known_(records, kNone) {}

  static std::size_t bytes(std::uint64_t records) { return records * sizeof(float); }

  /// Begins another epoch, or goes on in one whose oldest record is `first`: nothing is
  /// known.
  void clear(std::uint64_t first) {
    std::lock_guard lock(mutex_);
    forget(first);
  }

  /// Reports `count` losses of records. Those that are not finite, of records that have
  /// left, and of others than records below `end`, are passed over. `mean`: neighbours
  /// of the same record count as one, their mean. Throws std::bad_alloc.
  void report(const std::int64_t* records, const float* losses, std::size_t count,
              std::uint64_t end, bool mean) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < count;) {
      const auto record = static_cast<std::uint64_t>(records[i]);
      std::size_t next = i + 1;
      auto sum = static_cast<double>(losses[i]);
      for (; mean && next < count && records[next] == records[i]; ++next)
        sum += static_cast<double>(losses[next]);
      const auto loss = static_cast<float>(sum / static_cast<double>(next - i));
      if (record < end) reports_.push_back({record, loss});  // none below 0 is
      i = next;
    }
  }

  /// What was reported by now is known. For the consumer.
  void take() {
    std::lock_guard lock(mutex_);
    take_reports();
  }

  /// Records before `oldest` have left, and their slots may be of others. For the
  /// consumer.
  void leave(std::uint64_t oldest) {
    std::lock_guard lock(mutex_);
    const std::uint64_t size = known_.size();
    if (size == 0 || oldest <= first_) return;
    if (oldest >= first_ + size) std::fill(known_.begin(), known_.end(), kNone);
    for (; first_ < oldest && first_ + size > oldest; ++first_)
      known_[first_ % size] = kNone;
    first_ = oldest;
  }

  /// Calls `use` with the losses of `count` records from `first` on in two runs, the
  /// second perhaps empty: kNone where none is known; and with no runs, if there was no
  /// report in this epoch. They are among those that are kept.
  template <class Use>
  void look(std::uint64_t first, std::uint64_t count, Use&& use) const {
    std::lock_guard lock(mutex_);
    if (!any_) return use(nullptr, std::uint64_t{0}, nullptr, std::uint64_t{0});
    const std::uint64_t slot = first % known_.size();
    const std::uint64_t run = std::min(count, known_.size() - slot);
    use(known_.data() + slot, run, known_.data(), count - run);
  }

  /// Returns those of `count` records from `first` on, with what was not yet taken;
  /// none, if there was no report.
  std::vector<float> save(std::uint64_t first, std::uint64_t count) {
    std::lock_guard lock(mutex_);
    take_reports();
    if (!any_) return {};
    std::vector<float> losses(count, kNone);
    for (std::uint64_t i = 0; i < count; ++i)
      if (is_kept(first + i)) losses[i] = known_[(first + i) % known_.size()];
    return losses;
  }

  /// Knows what was saved.
  void load(std::uint64_t first, const std::vector<float>& losses) {
    std::lock_guard lock(mutex_);
    forget(first);
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (std::isfinite(losses[i]) && is_kept(first + i))
        known_[(first + i) % known_.size()] = losses[i];
    any_ = !losses.empty() && !known_.empty();
  }

 private:
  struct Report {
    std::uint64_t record;
    float loss;
  };

  bool is_kept(std::uint64_t record) const {
    return record >= first_ && record - first_ < known_.size();
  }

  void forget(std::uint64_t first) {
    reports_.clear();
    std::fill(known_.begin(), known_.end(), kNone);
    first_ = first;
    any_ = false;
  }

  void take_reports() {
    const std::uint64_t size = known_.size();
    if (size == 0) return reports_.clear();
    const std::uint64_t at = first_ % size;
    for (const Report& report : reports_) {
      if (!is_kept(report.record) || !std::isfinite(report.loss)) continue;
      const std::uint64_t slot = at + (report.record - first_);
      known_[slot < size ? slot : slot - size] = report.loss;
      any_ = true;
    }
    reports_.clear();
  }

  mutable std::mutex mutex_;     // guards what follows
  std::vector<float> known_;     // a ring: of record r at r modulo its size
  std::uint64_t first_ = 0;      // the oldest record that a loss is kept of
  std::vector<Report> reports_;  // that are not known yet
  bool any_ = false;
};

}  // namespace echobuf
