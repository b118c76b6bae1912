// Calls of the core that may wait, as Python wants them: without the GIL while they
// wait or copy much, and with Ctrl-C let through.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>

#include "echobuf/attempt.hpp"
#include "echobuf/event_count.hpp"
#include "echobuf/options.hpp"
#include "gil.hpp"

namespace echobuf::python {

/// Copies of up to this many bytes keep the GIL: they take some ten microseconds, and
/// getting the GIL back from a busy thread takes five milliseconds.
inline constexpr std::size_t kKeepGil = std::size_t{256} << 10;
inline constexpr auto kSlice = std::chrono::milliseconds(50);
inline constexpr auto kMoment = std::chrono::milliseconds(1);
inline constexpr auto kPatience = std::chrono::seconds(1);  // with a device

/// Looks for signals between chunks of long copies, but not more often than matters.
class SignalPoll final : public Poll {
 public:
  explicit SignalPoll(GilRelease& released) : released_(released) {}
  bool go_on() override {
    if (Clock::now() - last_ < kSlice) return true;
    last_ = Clock::now();
    return released_.check_signals();
  }

 private:
  GilRelease& released_;
  Deadline last_ = Clock::now();
};

inline Deadline deadline_after(std::optional<double> timeout_s) {
  if (!timeout_s || *timeout_s > 1e9) return Deadline::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(*timeout_s));
}

/// Calls `call(deadline, poll)` until it is done or the time is over. If `brief`, the
/// first attempt keeps the GIL; if it is `enough`, no time means no other attempt.
/// `busy()`: whether it only waits for what the buffer itself is doing, which is not
/// what time is for. kInterrupted: the Python error is set.
template <class Call, class Busy>
Status run(bool brief, bool enough, std::optional<double> timeout_s, Call&& call,
           Busy&& busy) try {
  const Deadline end = deadline_after(timeout_s);
  // Asked before each look, too: what was under way then and is there now, is there to
  // be looked at.
  bool was_busy = busy();
  if (brief) {
    const Status status = call(kAtOnce, static_cast<Poll*>(nullptr));
    const bool no_time = timeout_s && *timeout_s == 0;
    const bool look_again = was_busy || busy();
    if (status != Status::kTimeout || (enough && no_time && !look_again)) return status;
  }
  GilRelease released;
  const bool main = on_main_thread();
  SignalPoll poll(released);
  Deadline slice = std::min(end, Clock::now() + kSlice);
  for (;; was_busy = busy()) {
    const Status status = call(slice, main ? &poll : nullptr);
    if (status != Status::kTimeout) return status;
    const Deadline now = Clock::now();
    const bool look_again = was_busy || busy();
    if (now >= end && (!look_again || now - end > kPatience)) return status;
    if (main && !released.check_signals()) return Status::kInterrupted;
    slice = now < end ? std::min(end, now + kSlice) : now + kMoment;
  }
} catch (const std::bad_alloc&) {
  return Status::kNoMemory;
}

}  // namespace echobuf::python
