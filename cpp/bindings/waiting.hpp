// Calls of the core that may wait, as Python wants them: without the GIL while they
// wait or copy much, and with Ctrl-C let through.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "echobuf/status.hpp"
#include "echobuf/sync/event_count.hpp"
#include "echobuf/sync/wait_for.hpp"
#include "gil.hpp"

namespace echobuf::python {

/// Copies of up to this many bytes keep the GIL: they take some ten microseconds, and
/// getting the GIL back from a busy thread takes five milliseconds.
inline constexpr std::size_t kKeepGil = std::size_t{256} << 10;
inline constexpr auto kSlice = std::chrono::milliseconds(50);
inline constexpr auto kMoment = std::chrono::milliseconds(1);

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

inline Deadline deadline_after(Deadline begun, std::optional<double> timeout_s) {
  if (!timeout_s || *timeout_s > 1e9) return Deadline::max();
  return begun + std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(*timeout_s));
}

/// Returns whether a call draws a batch: others make way for it.
enum class Does { kDraw, kOther };

/// Calls `call(wait_limit, poll)` until it is done or the time is over. If `brief`, the
/// first attempt keeps the GIL, and time runs from its end; if that is `enough`, no
/// time means no other attempt. `busy()`: whether it only waits for what the buffer
/// itself is doing, which is not what time is for. kInterrupted: the Python error is
/// set.
template <class Call, class Busy>
Status run(Does what, bool brief, bool enough, std::optional<double> timeout_s,
           Call&& call, Busy&& busy) try {
  if (brief) {
    const bool was_busy = busy();
    const Status status = call(kAtOnce, static_cast<Poll*>(nullptr));
    if (status != Status::kTimeout) return status;
    const bool no_time = timeout_s && *timeout_s == 0;
    if (enough && no_time && !was_busy && !busy()) return status;
  }
  const Deadline begun = Clock::now();
  const Deadline end = deadline_after(begun, timeout_s);
  // The time before the first wait counts as waiting, too, unless much was copied.
  std::optional<Deadline> since;
  if (brief) since = begun;
  GilRelease released(what == Does::kDraw);
  const bool main = on_main_thread();
  SignalPoll poll(released);
  for (;;) {
    // The last attempt begins with nothing on its way, so that it sees all that was put
    // before, and sets nothing going.
    const Deadline now = Clock::now();
    const bool over = now >= end;
    const bool last = over && (!busy() || now - end > kUploadWait);
    Deadline slice = std::min(end, now + kSlice);
    if (over) slice = last ? now : now + kMoment;
    const WaitLimit wait_limit{slice, std::exchange(since, {})};
    const Status status = call(wait_limit, main ? &poll : nullptr);
    if (status != Status::kTimeout) return status;
    if (last && (!busy() || now - end > kUploadWait)) return status;
    if (main && !released.check_signals()) return Status::kInterrupted;
  }
} catch (const std::bad_alloc&) {
  return Status::kNoMemory;
}

}  // namespace echobuf::python
