// A job's end of its seat: sends heartbeats, releases slots, and checks that the server
// still keeps slots for the job.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "echobuf/process.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::serve {

/// The seat of this job at a server; a thread sends heartbeats.
class ClientSlot final : public SlotOwner {
 public:
  /// `header`: descriptor of the server's header. Sends four heartbeats in a lease.
  ClientSlot(int header, std::uint64_t seat, std::uint64_t holder, double lease_s)
      : header_(header),
        seat_(header_->seats[seat]),
        holder_(holder),
        pause_(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(lease_s / 4))),
        heartbeat_(std::make_unique<std::thread>([this] { send_heartbeats(); })) {}

  ~ClientSlot() override {
    if (generation_ != fork_generation()) {
      static_cast<void>(heartbeat_.release());
      return;
    }
    detach();
    heartbeat_->join();
  }

  /// Stops heartbeats and draws: the server takes the seat back when the lease is over,
  /// if not before.
  void detach() {
    ending_.store(true, std::memory_order_release);
    ended_.notify();
  }

  RingHeader& header() const { return *header_; }
  Seat& seat() const { return seat_; }
  int fd() const { return header_.fd(); }

  /// The server changes the holder before any slot is written that this job still
  /// holds. Acquire-release, and not a load: reads of slots before this stay before it,
  /// and so are whole. (A fence, which ThreadSanitizer does not know, would
  /// do as well.)
  bool is_held() const override {
    // Acquire: pairs with detach(), after which nothing is drawn, even before the
    // server has noticed, or while there is none.
    if (ending_.load(std::memory_order_acquire)) return false;
    return seat_.holder.fetch_add(0, std::memory_order_acq_rel) == holder_;
  }

  /// Sets the server's position less the ring's, from now on.
  void shift(std::uint64_t by) { shift_.store(by, std::memory_order_release); }
  std::uint64_t shift() const { return shift_.load(std::memory_order_acquire); }

  void return_slots(std::uint64_t position) override {
    // Only ahead: an epoch that begins may release what was before it.
    raise_to(seat_.released, position + shift());
  }

  /// Gives up all epochs below `epoch`.
  void skip_to(std::uint64_t epoch) { raise_to(seat_.left, epoch); }

  /// The first epoch of this job, once it has begun.
  std::optional<std::uint64_t> first_epoch() const {
    if (seat_.state.load(std::memory_order_acquire) != Seat::kTaken)
      return std::nullopt;
    return seat_.first_epoch;
  }

  /// The position at which an epoch begins, once it has begun; `epoch` is not before
  /// first_epoch().
  std::optional<std::uint64_t> base_of(std::uint64_t epoch) const {
    if (header_->begun.load(std::memory_order_acquire) <= epoch) return std::nullopt;
    return epoch == seat_.first_epoch ? seat_.base : header_->end_of(epoch - 1);
  }

 private:
  /// The exchange fails if another job has the seat by now, whose values are higher.
  void raise_to(std::atomic<std::uint64_t>& of, std::uint64_t value) {
    if (generation_ != fork_generation()) return;  // the seat is the parent's
    std::uint64_t before = of.load(std::memory_order_relaxed);
    while (before < value && is_held() &&
           !of.compare_exchange_weak(before, value, std::memory_order_release,
                                     std::memory_order_relaxed)) {
    }
    header_->room.notify();
  }

  void send_heartbeats() {
    while (!ending_.load(std::memory_order_acquire)) {
      const std::uint32_t key = ended_.prepare();
      if (is_held()) seat_.heartbeat_ns.store(now_ns(), std::memory_order_relaxed);
      if (ending_.load(std::memory_order_acquire)) return;
      ended_.wait(key, Clock::now() + pause_);
    }
  }

  const MappedHeader header_;
  Seat& seat_;
  const std::uint64_t holder_;
  const Clock::duration pause_;
  const std::uint32_t generation_ = fork_generation();
  std::atomic<std::uint64_t> shift_{0};
  std::atomic<bool> ending_{false};
  EventCount ended_;
  std::unique_ptr<std::thread> heartbeat_;
};

}  // namespace echobuf::serve
