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
/// kInterrupted: the Python error is set.
template <class Call>
Status run(bool brief, bool enough, std::optional<double> timeout_s, Call&& call) try {
  const Deadline end = deadline_after(timeout_s);
  if (brief) {
    const Status status = call(kAtOnce, static_cast<Poll*>(nullptr));
    const bool no_time = timeout_s && *timeout_s == 0;
    if (status != Status::kTimeout || (enough && no_time)) return status;
  }
  GilRelease released;
  const bool main = on_main_thread();
  SignalPoll poll(released);
  for (;;) {
    const Deadline slice = Clock::now() + kSlice;
    const Status status = call(std::min(end, slice), main ? &poll : nullptr);
    if (status != Status::kTimeout || Clock::now() >= end) return status;
    if (main && !released.check_signals()) return Status::kInterrupted;
  }
} catch (const std::bad_alloc&) {
  return Status::kNoMemory;
}

}  // namespace echobuf::python
