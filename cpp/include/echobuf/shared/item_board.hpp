// Items that worker processes make next, and places that any of them may write next:
// each worker takes both when it needs them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::workers {

/// Says of one thing, with a number for ever, who has taken it. One exchange of the
/// word takes it: a process that dies after that has left its mark, and the one that
/// takes its place goes on with it.
class Taken {
 public:
  /// Takes what nobody will give back: it is done with at once.
  static constexpr std::uint64_t kTrainer = 2046;

  /// Offers the thing with that number. Release: what belongs to it comes with it.
  void offer(std::uint64_t number) {
    word_.store(of(number), std::memory_order_release);
  }

  /// False if it was not offered, or is another's, or was. Acquire: pairs with offer();
  /// where it is another's, pairs with his take(): see BasicItemBoard::take_place().
  bool take(std::uint64_t number, std::uint64_t by) {
    std::uint64_t expected = of(number);
    return word_.compare_exchange_strong(expected, expected | (by + 1),
                                         std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  /// Returns whether it is offered, and nobody's. Acquire: as in take().
  bool is_free(std::uint64_t number) const {
    return word_.load(std::memory_order_acquire) == of(number);
  }
  bool is_by(std::uint64_t number, std::uint64_t by) const {
    return word_.load(std::memory_order_acquire) == (of(number) | (by + 1));
  }
  /// Marks it as done with. Nothing happens if the trainer has offered another one in
  /// its place meanwhile.
  void finish(std::uint64_t number, std::uint64_t by) {
    std::uint64_t expected = of(number) | (by + 1);
    word_.compare_exchange_strong(expected, of(number) | kDone,
                                  std::memory_order_acq_rel, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kDone = 2047;
  static constexpr int kOwnerBits = 11;  // there are 1024 workers at most

  /// Never 0: the word of what was never offered.
  static std::uint64_t of(std::uint64_t number) { return (number + 1) << kOwnerBits; }

  std::atomic<std::uint64_t> word_{0};
};

/// Lies behind the queues in a control block. Item n, and with it the n-th place, lies
/// at n % kItems. In memory of zeros, which are not touched until they are used.
template <std::uint64_t kSize>
struct BasicItemBoard {
  static constexpr std::uint64_t kItems = kSize;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  struct Item {
    Taken item;
    Taken place;                 // offered where examples have one size, and no order
    std::int64_t index = 0;      // of the example
    std::uint64_t position = 0;  // of the place in the ring
    bool ordered = false;        // the item's place is the one of its own number
    // The worker whose turn it is, or kNone: any one's. Relaxed: take() tells whether
    // it is the turn of that item still.
    std::atomic<std::uint64_t> turn{0};
  };

  // Written by the trainer. Release: pairs with the workers' acquire.
  std::atomic<std::uint64_t> submitted{0};
  std::atomic<std::uint64_t> oldest{0};   // items and places below are done with
  std::atomic<std::uint64_t> revoked{0};  // items below are revoked
  EventCount work{true};                  // more was submitted or revoked
  // No worker can take an item or a place below: a hint, which may be old. Release:
  // pairs with take(), which then sees all that had been submitted.
  alignas(kNoSharing) std::atomic<std::uint64_t> next_item{0};
  alignas(kNoSharing) std::atomic<std::uint64_t> next_place{0};
  alignas(kNoSharing) std::array<Item, kItems> items{};

  Item& at(std::uint64_t number) { return items[number % kItems]; }
  const Item& at(std::uint64_t number) const { return items[number % kItems]; }

  /// Takes the first item that nobody has, and that is not another worker's turn.
  std::optional<std::uint64_t> take_item(std::uint64_t by) {
    return take(&Item::item, next_item, by, [&](const Item& item) {
      const std::uint64_t turn = item.turn.load(std::memory_order_relaxed);
      return turn == by || turn == kNone;
    });
  }
  /// Takes the first place that nobody has. Who has an item finds one: others take
  /// places for items that were submitted meanwhile, but then these are looked at, too.
  std::optional<std::uint64_t> take_place(std::uint64_t by) {
    return take(&Item::place, next_place, by, [](const Item&) { return true; });
  }

  /// Returns an item, or a place, that `by` has taken and not finished; there is one at
  /// most, as each takes another only then.
  std::optional<std::uint64_t> held(Taken Item::*which, std::uint64_t by) const {
    const std::uint64_t end = submitted.load(std::memory_order_acquire);
    for (auto n = oldest.load(std::memory_order_acquire); n < end; ++n)
      if ((at(n).*which).is_by(n, by)) return n;
    return std::nullopt;
  }

 private:
  template <class IsMine>
  std::optional<std::uint64_t> take(Taken Item::*which,
                                    std::atomic<std::uint64_t>& next, std::uint64_t by,
                                    IsMine&& is_mine) {
    bool any_left = false;  // for another worker
    std::uint64_t end = 0;
    for (std::uint64_t n = next.load(std::memory_order_acquire);; ++n) {
      if (n >= end) end = submitted.load(std::memory_order_acquire);
      if (n >= end) return std::nullopt;
      Item& item = at(n);
      if (!(item.*which).is_free(n)) continue;
      if (!is_mine(item)) {
        any_left = true;
      } else if ((item.*which).take(n, by)) {
        if (!any_left) next.store(n + 1, std::memory_order_release);
        return n;
      }
    }
  }
};

using ItemBoard = BasicItemBoard<8192>;

}  // namespace echobuf::workers
