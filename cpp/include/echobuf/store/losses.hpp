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

  static std::size_t bytes(std::uint64_t records) { return records * sizeof(float); }

  /// Begins another epoch: nothing is known of its records.
  void clear() {
    std::lock_guard lock(mutex_);
    reports_.clear();
    first_ = end_ = 0;
    slot_ = 0;
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
      double sum = static_cast<double>(losses[i]);
      for (; mean && next < count && records[next] == records[i]; ++next)
        sum += static_cast<double>(losses[next]);
      const auto loss = static_cast<float>(sum / static_cast<double>(next - i));
      reports_.push_back({static_cast<std::uint64_t>(records[i]), loss});
      i = next;
    }
  }

  /// What was reported by now is known. For the consumer.
  void take() {
    std::lock_guard lock(mutex_);
    take_reports();
  }

  /// A pass begins over `count` records from `first` on: those before have left, and
  /// nothing is known of new ones. Calls `use` with the losses of all of them in two
  /// runs, the second perhaps empty: kNone where none is known; and with no runs, if
  /// there was no report in this epoch.
  template <class Use>
  void enter(std::uint64_t first, std::uint64_t count, Use&& use) {
    std::lock_guard lock(mutex_);
    move_to(first, count);
    if (!any_) return use(nullptr, std::uint64_t{0}, nullptr, std::uint64_t{0});
    const std::uint64_t run = std::min(count, known_.size() - slot_);
    use(known_.data() + slot_, run, known_.data(), count - run);
  }

  /// Returns those of `count` records from `first` on, with what was not yet taken;
  /// none, if there was no report.
  std::vector<float> save(std::uint64_t first, std::uint64_t count) {
    std::lock_guard lock(mutex_);
    take_reports();
    if (!any_) return {};
    std::vector<float> losses(count, kNone);
    for (std::uint64_t i = 0; i < count; ++i)
      if (first + i >= first_ && first + i < end_) losses[i] = known_[slot(first + i)];
    return losses;
  }

  /// Knows what was saved. For an epoch in which nothing was reported.
  void load(std::uint64_t first, const std::vector<float>& losses) {
    std::lock_guard lock(mutex_);
    if (losses.empty() || losses.size() > known_.size()) return;
    move_to(first, losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (std::isfinite(losses[i])) known_[slot(first + i)] = losses[i];
    any_ = true;
  }

 private:
  struct Report {
    std::uint64_t record;
    float loss;
  };

  /// Where the loss of a record that has not left lies.
  std::uint64_t slot(std::uint64_t record) const {
    const std::uint64_t slot = slot_ + (record - first_);
    return slot < known_.size() ? slot : slot - known_.size();
  }

  void move_to(std::uint64_t first, std::uint64_t count) {
    if (first >= end_) {  // all have left
      end_ = first_ = first;
      slot_ = 0;
    }
    slot_ = slot(first);
    first_ = first;
    for (; end_ < first + count; ++end_) known_[slot(end_)] = kNone;
  }

  void take_reports() {
    for (const Report& report : reports_) {
      if (report.record < first_ || report.record >= end_) continue;
      if (!std::isfinite(report.loss)) continue;
      known_[slot(report.record)] = report.loss;
      any_ = true;
    }
    reports_.clear();
  }

  std::mutex mutex_;             // guards what follows
  std::vector<float> known_;     // a ring
  std::uint64_t first_ = 0;      // the oldest record that a loss is kept of
  std::uint64_t end_ = 0;        // those below have entered
  std::uint64_t slot_ = 0;       // of the oldest
  std::vector<Report> reports_;  // that are not known yet
  bool any_ = false;
};

}  // namespace echobuf
