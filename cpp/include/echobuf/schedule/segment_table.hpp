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

  /// Goes on with `segment`, whose first record is `record`, and before which `whole`
  /// segments ended by their records; nothing else is known before.
  void begin(std::uint64_t segment, std::uint64_t record, std::uint64_t whole = 0) {
    begins_.assign(1, {record, whole});
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
    const std::uint64_t whole = begins_.back().whole;
    if (bytes_ + bytes > share_) close({end_, whole});
    if (open_records() + 1 == size_of(open())) {
      close({end_ + 1, whole + 1});
    } else {
      bytes_ += bytes;
    }
    ++end_;
  }

  /// The open segment is full, though the next record is not known.
  void end_segment() { close({end_, begins_.back().whole}); }

  /// The first record of segment i, no earlier than what begin() or forget() left;
  /// kUnknown while segment i - 1 is not full.
  std::uint64_t start(std::uint64_t i) const {
    return i > open() ? kUnknown : begin_of(i).record;
  }

  /// The records of segment i that are known; none of one that is not.
  std::uint64_t records(std::uint64_t i) const {
    if (i > open()) return 0;
    return (i == open() ? end_ : begin_of(i + 1).record) - begin_of(i).record;
  }
  /// True if segment i is full by its payload, and has fewer records than it might.
  bool is_short(std::uint64_t i) const {
    return i < open() && begin_of(i).whole == begin_of(i + 1).whole;
  }
  /// The segments before segment i that ended by their records. Of those that are not
  /// known: as if all of them did.
  std::uint64_t whole_before(std::uint64_t i) const {
    return i > open() ? begins_.back().whole + (i - open()) : begin_of(i).whole;
  }

  /// The number of segments that the records up to end() make, the last one perhaps
  /// partial.
  std::uint64_t segments() const { return open() + (open_records() > 0 ? 1 : 0); }

  /// The segment that is being filled, and how many records and bytes it has.
  std::uint64_t open() const { return first_ + begins_.size() - 1; }
  std::uint64_t open_records() const { return end_ - begins_.back().record; }
  std::uint64_t open_bytes() const { return bytes_; }
  std::uint64_t share() const { return share_; }

  /// Nothing is asked any more about segments before i.
  void forget(std::uint64_t i) {
    for (; first_ < i && begins_.size() > 1; ++first_) begins_.pop_front();
  }

 private:
  struct Begin {
    std::uint64_t record;
    std::uint64_t whole;  // segments before, that ended by their records
  };

  const Begin& begin_of(std::uint64_t i) const { return begins_[i - first_]; }

  void close(const Begin& next) {
    begins_.push_back(next);  // first: it may throw
    bytes_ = 0;
  }

  std::uint64_t share_;
  std::deque<Begin> begins_{{0, 0}};  // of segments from first_ on
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t bytes_ = 0;  // of the segment that is being filled
};

}  // namespace echobuf
