// A job's place at a server: what it says of itself, and whether its slots are still
// kept for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "echobuf/process.hpp"
#include "echobuf/serve/feed.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::serve {

class Place final : public SlotOwner {
 public:
  /// `feed`: of the server; says that it is alive four times in a lease.
  Place(int feed, std::uint64_t seat, std::uint64_t holder, double lease_s)
      : feed_(feed),
        seat_(feed_->seats[seat]),
        holder_(holder),
        pause_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(lease_s / 4))),
        beating_(std::make_unique<std::thread>([this] { beat(); })) {}

  ~Place() override {
    if (generation_ != fork_generation()) {
      static_cast<void>(beating_.release());
      return;
    }
    fall_silent();
    beating_->join();
  }

  /// Gives no further sign of life, and lends nothing more: the place goes with the
  /// lease, if not before.
  void fall_silent() {
    ending_.store(true, std::memory_order_release);
    ended_.notify();
  }

  Header& header() const { return *feed_; }
  Seat& seat() const { return seat_; }
  int fd() const { return feed_.fd(); }

  /// The server changes the holder before any slot is written that this job still
  /// holds. Acquire-release, and not a load: what was read of slots before this stays
  /// before it, and so is whole. (A fence, which ThreadSanitizer does not know, would
  /// do as well.)
  bool is_held() const override {
    // Acquire: pairs with fall_silent(), after which nothing is drawn, also where the
    // server has yet to hear of it, or is away.
    if (ending_.load(std::memory_order_acquire)) return false;
    return seat_.holder.fetch_add(0, std::memory_order_acq_rel) == holder_;
  }

  /// The ring's positions are the server's less this from now on.
  void shift(std::uint64_t by) { shift_.store(by, std::memory_order_release); }
  std::uint64_t shift() const { return shift_.load(std::memory_order_acquire); }

  void return_slots(std::uint64_t position) override {
    // Only ahead: an epoch that begins may release what was before it.
    raise_to(seat_.released, position + shift());
  }

  /// No epoch below `epoch` is read any more.
  void leave(std::uint64_t epoch) { raise_to(seat_.left, epoch); }

  /// The first epoch of this job, once it has begun.
  std::optional<std::uint64_t> first_epoch() const {
    if (seat_.state.load(std::memory_order_acquire) != Seat::kTaken)
      return std::nullopt;
    return seat_.first_epoch;
  }

  /// Where an epoch begins, which is not before that, once it has begun.
  std::optional<std::uint64_t> base_of(std::uint64_t epoch) const {
    if (feed_->begun.load(std::memory_order_acquire) <= epoch) return std::nullopt;
    return epoch == seat_.first_epoch ? seat_.base : feed_->end_of(epoch - 1);
  }

 private:
  /// The exchange fails if another job has the seat by now: it begins further on.
  void raise_to(std::atomic<std::uint64_t>& of, std::uint64_t value) {
    if (generation_ != fork_generation()) return;  // the seat is the parent's
    std::uint64_t before = of.load(std::memory_order_relaxed);
    while (before < value && is_held() &&
           !of.compare_exchange_weak(before, value, std::memory_order_release,
                                     std::memory_order_relaxed)) {
    }
    feed_->room.notify();
  }

  void beat() {
    while (!ending_.load(std::memory_order_acquire)) {
      const std::uint32_t key = ended_.prepare();
      if (is_held()) seat_.beat_ns.store(now_ns(), std::memory_order_relaxed);
      if (ending_.load(std::memory_order_acquire)) return;
      ended_.wait(key, Clock::now() + pause_);
    }
  }

  const Feed feed_;
  Seat& seat_;
  const std::uint64_t holder_;
  const Clock::duration pause_;
  const std::uint32_t generation_ = fork_generation();
  std::atomic<std::uint64_t> shift_{0};
  std::atomic<bool> ending_{false};
  EventCount ended_;
  std::unique_ptr<std::thread> beating_;
};

}  // namespace echobuf::serve
