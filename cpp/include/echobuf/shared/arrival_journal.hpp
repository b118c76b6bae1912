// The order in which items have entered the ring, in which a state goes on with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <vector>

namespace echobuf::workers {

/// Of one term. Items are numbered in the order of their submission, entries in that of
/// the ring; both from 0. The first `ordered` items enter in their order.
class ArrivalJournal {
 public:
  /// `keep`: entries that are kept; a state needs none before them.
  ArrivalJournal(std::uint64_t term, std::uint64_t ordered, std::uint64_t keep)
      : term_(term), ordered_(ordered), keep_(keep) {}

  std::uint64_t term() const { return term_; }
  std::uint64_t ordered() const { return ordered_; }
  /// The first entry that is not known.
  std::uint64_t end() const { return end_; }

  /// Notes that an item is the entry of that number, before anybody can see it there.
  void enter(std::uint64_t entry, std::uint64_t item) {
    const std::uint64_t at = entry - begin_;
    if (at >= items_.size()) items_.resize(at + 1, kUnknown);
    items_[at] = item;
    while (end_ - begin_ < items_.size() && items_[end_ - begin_] != kUnknown) enter();
    while (items_.size() > keep_ && begin_ < end_) {
      items_.pop_front();
      ++begin_;
    }
  }

  struct Entered {
    std::vector<std::uint64_t> order;    // items from an entry on
    std::vector<std::uint64_t> missing;  // that have not entered, before one that has
  };
  /// Throws std::out_of_range if entries from `from` on are not kept.
  Entered entered(std::uint64_t from) const {
    if (from < begin_) throw std::out_of_range("the entry is kept no more");
    Entered found;
    for (std::uint64_t n = from; n < std::max(end_, ordered_); ++n)
      found.order.push_back(n < end_ ? items_[n - begin_] : n);  // enters in order
    for (std::uint64_t n = std::max(first_missing_, ordered_);
         n < first_missing_ + seen_.size(); ++n)
      if (!seen_[n - first_missing_]) found.missing.push_back(n);
    return found;
  }
  /// Items from this one on have not entered, and are not among `missing`.
  std::uint64_t limit() const {
    return std::max(ordered_, first_missing_ + seen_.size());
  }

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  /// Counts the entry `end_` among those before it.
  void enter() {
    const std::uint64_t item = items_[end_++ - begin_];
    const std::uint64_t at = item - first_missing_;
    if (at >= seen_.size()) seen_.resize(at + 1, false);
    seen_[at] = true;
    while (!seen_.empty() && seen_.front()) {
      seen_.pop_front();
      ++first_missing_;
    }
  }

  const std::uint64_t term_;
  const std::uint64_t ordered_;
  const std::uint64_t keep_;
  std::deque<std::uint64_t> items_;  // of entries from `begin_` on
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::deque<bool> seen_;  // items from `first_missing_` on, which has not entered
  std::uint64_t first_missing_ = 0;
};

}  // namespace echobuf::workers
