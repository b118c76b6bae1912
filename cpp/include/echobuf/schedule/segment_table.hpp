// Where segments begin when records differ in size: a segment ends by its records or by
// its share of the payload. No threads, no memory but its own, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>

namespace echobuf {

/// Segment i takes records while it has at most its number of them and their bytes are
/// at most a share; it is full with its last record, or once the next does not fit. So
/// where it ends is a function of the lengths alone: tests/ragged has a slow reference.
class SegmentTable {
 public:
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  /// `share`: the most bytes of a segment; a record has no more.
  explicit SegmentTable(std::uint64_t share) : share_(share) {}

  /// Goes on with `segment`, whose first record is `record`; nothing is known before.
  void begin(std::uint64_t segment, std::uint64_t record) {
    starts_.assign(1, record);
    first_ = segment;
    end_ = record;
    bytes_ = 0;
  }

  /// The first record that is not known yet.
  std::uint64_t end() const { return end_; }

  /// Adds the next record. `size_of(i)`: the most records of segment i. Throws
  /// std::bad_alloc; then the record can be added again.
  template <class SizeOf>
  void add(std::uint64_t bytes, const SizeOf& size_of) {
    if (bytes_ + bytes > share_) close(end_);
    if (open_records() + 1 == size_of(open())) {
      close(end_ + 1);
    } else {
      bytes_ += bytes;
    }
    ++end_;
  }

  /// The first record of segment i, no earlier than what begin() or forget() left;
  /// kUnknown while segment i - 1 is not full.
  std::uint64_t start(std::uint64_t i) const {
    return i > open() ? kUnknown : starts_[i - first_];
  }

  /// The number of segments that the records up to end() make, the last one perhaps
  /// partial.
  std::uint64_t segments() const { return open() + (end_ > starts_.back() ? 1 : 0); }

  /// The segment that is being filled, and how many records and bytes it has.
  std::uint64_t open() const { return first_ + starts_.size() - 1; }
  std::uint64_t open_records() const { return end_ - starts_.back(); }
  std::uint64_t open_bytes() const { return bytes_; }
  std::uint64_t share() const { return share_; }

  /// Nothing is asked any more about segments before i.
  void forget(std::uint64_t i) {
    for (; first_ < i && starts_.size() > 1; ++first_) starts_.pop_front();
  }

 private:
  void close(std::uint64_t end) {
    starts_.push_back(end);  // first: it may throw
    bytes_ = 0;
  }

  std::uint64_t share_;
  std::deque<std::uint64_t> starts_{0};  // of segments from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t bytes_ = 0;  // of the segment that is being filled
};

}  // namespace echobuf
