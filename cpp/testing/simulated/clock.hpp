// Vector clocks: what is ordered before what. Actor 0 is the host, all of its threads
// together; the others are streams, by number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace echobuf::simulated {

inline constexpr std::size_t kHost = 0;

/// The time of each actor.
class VectorClock {
 public:
  std::uint64_t at(std::size_t actor) const {
    return actor < ticks_.size() ? ticks_[actor] : 0;
  }

  void set(std::size_t actor, std::uint64_t tick) {
    if (actor >= ticks_.size()) ticks_.resize(actor + 1);
    ticks_[actor] = tick;
  }

  /// From now on also after everything that `other` is after.
  void join(const VectorClock& other) {
    if (ticks_.size() < other.ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i)
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
  }

  /// True if this is after all that `other` is after.
  bool covers(const VectorClock& other) const {
    for (std::size_t i = 0; i < other.ticks_.size(); ++i)
      if (at(i) < other.ticks_[i]) return false;
    return true;
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

/// One operation of a stream, or what the host did between enqueuing two.
struct Label {
  std::string name;
  std::size_t actor;
  std::uint64_t tick;

  std::string text() const {
    if (actor == kHost)
      return "the host (after enqueuing operation " + std::to_string(tick - 1) + ")";
    return "`" + name + "` (stream " + std::to_string(actor) + ", operation " +
           std::to_string(tick) + ")";
  }
};

using LabelPointer = std::shared_ptr<const Label>;

/// An accessor of memory: an operation with all that is ordered before it.
struct Actor {
  LabelPointer label;
  const VectorClock& clock;
  int device;  // -1: the host

  bool is_after(const Label& other) const {
    return clock.at(other.actor) >= other.tick;
  }
};

}  // namespace echobuf::simulated
