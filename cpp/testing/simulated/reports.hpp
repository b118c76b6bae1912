// Reports of errors. They outlive the driver that made them, until the next start.
#pragma once

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace echobuf::simulated {

class Reports {
 public:
  /// Keeps `text` unless something with this `key` was reported before. After a
  /// thousand only their number is kept: one mistake can give many.
  void add(const std::string& key, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (texts_.size() >= kMost) {
      ++dropped_;
    } else if (keys_.insert(key).second) {
      texts_.push_back(text);
    }
  }

  void add(const std::string& text) { add(text, text); }

  /// Takes no more until the next clear().
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return texts_.size() + (dropped_ ? 1 : 0);
  }

  std::string text(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    if (index < texts_.size()) return texts_[index];
    if (index > texts_.size() || dropped_ == 0) return "";
    return "and " + std::to_string(dropped_) + " more";
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    texts_.clear();
    keys_.clear();
    dropped_ = 0;
    closed_ = false;
  }

 private:
  static constexpr std::size_t kMost = 1000;

  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
  std::set<std::string> keys_;
  std::size_t dropped_ = 0;
  bool closed_ = false;
};

}  // namespace echobuf::simulated
