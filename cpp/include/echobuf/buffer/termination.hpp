// The reason why a buffer serves nothing more: upstream failed, the device is lost, or
// the buffer was shut down.
#pragma once

#include <atomic>
#include <optional>

#include "echobuf/status.hpp"
#include "echobuf/store/borrowed_slots.hpp"

namespace echobuf {

template <class Ring>
class Termination {
 public:
  /// `slot_owner`: of the slots, or null.
  Termination(const Ring& ring, const SlotOwner* slot_owner)
      : ring_(ring), slot_owner_(slot_owner) {}

  /// The caller then closes the ring, and wakes all threads; the same holds for
  /// shut_down().
  void fail() {
    // After close() the end is known, and passes may have been begun that rely on it.
    if (!ring_.closed()) cut_off_.store(true, std::memory_order_release);
    failed_.store(true, std::memory_order_release);
  }
  void shut_down() { down_.store(true, std::memory_order_release); }
  /// The device is lost; reset() brings nothing back.
  void break_down() { broken_.store(true, std::memory_order_release); }

  /// Of the epoch that begins nothing has failed.
  void forget_failure() {
    failed_.store(false, std::memory_order_release);
    cut_off_.store(false, std::memory_order_release);
  }

  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  bool is_down() const { return down_.load(std::memory_order_acquire); }
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }

  /// Not if it is the epoch opened ahead that failed; that was opened before. Looked at
  /// twice: a reset forgets such a failure, and then that anything was opened ahead.
  bool failed_here() const {
    return has_failed() && !ring_.opened_ahead() && has_failed();
  }

  /// True if it is not known where this epoch would have ended.
  bool cut_off() const {
    const bool cut_off = cut_off_.load(std::memory_order_acquire);
    return cut_off && failed_here();
  }

  /// Returns the reason to end a call before it draws, or after: then the caller gives
  /// up what it drew.
  std::optional<Status> early() const {
    if (is_down()) return Status::kClosed;
    if (is_broken()) return Status::kBroken;
    if (failed_here() || (slot_owner_ && !slot_owner_->is_held()))
      return Status::kFailed;
    return std::nullopt;
  }

 private:
  const Ring& ring_;
  const SlotOwner* const slot_owner_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> cut_off_{false};  // failed before it was closed
  std::atomic<bool> down_{false};
  std::atomic<bool> broken_{false};
};

}  // namespace echobuf
