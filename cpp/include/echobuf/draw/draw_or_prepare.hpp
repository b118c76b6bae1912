// Drawing, or else naming the position that is missing, so that its commit wakes the
// consumer.
#pragma once

#include <cstdint>

#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/sync/event_count.hpp"

namespace echobuf {

/// Wakes the other consumers when it is destroyed, unless dismissed: then none can have
/// been missed.
class WakeOthers {
 public:
  explicit WakeOthers(EventCount& event) : event_(&event) {}
  ~WakeOthers() {
    if (event_) event_->notify();
  }
  WakeOthers(const WakeOthers&) = delete;
  WakeOthers& operator=(const WakeOthers&) = delete;
  void dismiss() { event_ = nullptr; }

 private:
  EventCount* event_;
};

/// Draws, or says what is waited for and looks again: with the draw lock all the while,
/// so that what the ring holds as wanted is always what the last look found missing,
/// and every sleeper needs it. Only a look that then finds it there leaves sleepers
/// whom that commit did not wake, since it may have read what was wanted before.
template <class Ring, class Drawer, class Draw>
DrawOutcome draw_or_prepare(Ring& ring, Drawer& drawer, Draw&& draw_once,
                            std::uint32_t& key) {
  auto outcome = draw_once();
  if (outcome != DrawOutcome::kWait) return outcome;
  WakeOthers others(ring.filled());
  for (std::uint64_t wanted = drawer.wanted();;) {
    ring.want(wanted);
    key = ring.filled().prepare();
    outcome = draw_once();
    if (outcome != DrawOutcome::kWait) return outcome;
    const std::uint64_t now = drawer.wanted();
    if (now == wanted) break;
    wanted = now;
  }
  others.dismiss();
  return outcome;
}

}  // namespace echobuf
