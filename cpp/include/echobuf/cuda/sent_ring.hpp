// The part of a ring on a device that does not depend on how large records are: what
// producers have committed, and what of it an uploader has sent.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "echobuf/store/ring.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf::cuda {

/// The uploader is one thread, and the consumer one at a time.
class SentRing {
 public:
  using Extent = Ring::Extent;

  Claims& claims() { return staging_.claims(); }

  // ---- producers, any number: they see the ring of staging

  Ring::Claim claim(std::uint64_t want, std::uint64_t term,
                    const std::uint64_t* units = nullptr) {
    return staging_.claim(want, term, units);
  }
  bool is_over(std::uint64_t term) { return staging_.is_over(term); }
  bool has_room(std::uint64_t units = 0) const { return staging_.has_room(units); }
  std::uint64_t term() const { return staging_.term(); }
  void commit(std::uint64_t first, std::uint64_t count) {
    staging_.commit(first, count);
  }
  EventCount& room() { return staging_.room(); }

  // ---- the uploader

  /// A run is on its way, or skipped: draws may be enqueued behind it.
  void sent(std::uint64_t end) {
    // Release: pairs with the acquire in extent(); the run's event is recorded.
    uploaded_.store(end, std::memory_order_release);
    if (filled_.announce() && wanted_.load(std::memory_order_relaxed) < end)
      filled_.wake();
  }

  // ---- the consumer

  Extent extent() {
    return staging_.extent([this] { return uploaded(); });
  }
  bool is_committed(std::uint64_t position) const { return position < uploaded(); }
  /// The end of what was put in the consumer's term by now, sent or not.
  std::uint64_t put_end() {
    return staging_
        .extent([this] {
          for (std::uint64_t end = std::max(put_end_, uploaded());; ++end) {
            // The next one may have been sent meanwhile, and its slot written again.
            while (!staging_.is_committed(end)) {
              const std::uint64_t sent = uploaded();
              if (sent <= end) return put_end_ = end;
              end = sent;
            }
          }
        })
        .committed;
  }
  void want(std::uint64_t position) {
    wanted_.store(position, std::memory_order_relaxed);
  }
  EventCount& filled() { return filled_; }

  void cross_border() { staging_.cross_border(); }

  /// `record`: to be called before slots are given back, by the thread that does it.
  void before_release(std::function<void()> record) { record_ = std::move(record); }

  // ---- either side

  void close() {
    staging_.close();
    filled_.notify();  // a consumer looks whether that was the end
  }
  bool closed() const { return staging_.closed(); }
  std::optional<std::uint64_t> end() const { return staging_.end(); }
  std::uint64_t tail() const { return staging_.tail(); }
  void reopen() { staging_.reopen(); }
  void reopen_ahead() { staging_.reopen_ahead(); }
  bool opened_ahead() const { return staging_.opened_ahead(); }

  void wake_all() {
    staging_.wake_all();
    filled_.notify();
    window_room_.notify();
  }

  /// Notes that the uploader has ended: no thread may wait for it to send.
  void retire() { retired_.store(true, std::memory_order_release); }

  /// Waits until nothing below `end` is on its way any more; the consumer rests, and
  /// what it has not drawn is given up. The uploader goes over it without copying.
  void settle(std::uint64_t end) {
    given_up_.store(end, std::memory_order_release);
    while (uploaded() < end && !retired()) {
      wake_all();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

 protected:
  explicit SentRing(const RingShape& staging)
      : staging_(staging), uploaded_(staging.first) {}

  std::uint64_t uploaded() const { return uploaded_.load(std::memory_order_acquire); }
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  /// Acquire: pairs with settle().
  std::uint64_t given_up() const { return given_up_.load(std::memory_order_acquire); }

  /// Slots are given back: the event behind the draws that read them is recorded first.
  void record_draws() const {
    if (record_) record_();
  }

  Ring staging_;
  EventCount window_room_;  // of the uploader, where what is sent may have no room

 private:
  alignas(kNoSharing) std::atomic<std::uint64_t> uploaded_;
  EventCount filled_;
  std::atomic<std::uint64_t> wanted_{0};
  std::uint64_t put_end_ = 0;  // the consumer's own, as what follows
  std::function<void()> record_;
  alignas(kNoSharing) std::atomic<std::uint64_t> given_up_{0};
  std::atomic<bool> retired_{false};
};

}  // namespace echobuf::cuda
