// The number of earlier uses of each record in the window of a pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace echobuf {

/// A record's uses are in consecutive passes, so a draw's echo, 0 for the first use and
/// then 1, 2, ..., is the number of passes since its segment entered. Places count the
/// records of the window from 0 on; a later place has the same echo or a smaller one.
class Echoes {
 public:
  /// Begins the window of another pass.
  void clear() {
    starts_.clear();
    echoes_.clear();
  }

  /// Adds a segment that begins at place `start`: the newest first, each before the
  /// last one; at least one, which begins at 0. Throws std::bad_alloc.
  void add(std::uint32_t start, std::uint32_t echo) {
    if (!echoes_.empty() && echo == echoes_.back()) {
      starts_.back() = start;
      return;
    }
    starts_.push_back(start);
    echoes_.push_back(echo);
  }

  /// The echo of a place.
  std::uint32_t of(std::uint32_t place) const {
    const auto own =
        std::lower_bound(starts_.begin(), starts_.end(), place, std::greater<>());
    return echoes_[static_cast<std::size_t>(own - starts_.begin())];
  }

  /// Writes those of `count` places.
  void of(const std::uint32_t* places, std::size_t count, std::uint32_t* echoes) const {
    if (starts_.size() > kCompared) {
      for (std::size_t i = 0; i < count; ++i) echoes[i] = of(places[i]);
      return;
    }
    std::fill_n(echoes, count, echoes_.back());
    for (std::size_t segment = 0; segment + 1 < starts_.size(); ++segment) {
      // Without branches, and signed, as places are below 2^31: compilers make vectors
      // of it. With a fixed factor echoes drop by one.
      const auto start = static_cast<std::int32_t>(starts_[segment]);
      const std::uint32_t drop = echoes_[segment + 1] - echoes_[segment];
      const auto is_behind = [&](std::size_t i) {
        return static_cast<std::int32_t>(places[i]) >= start;
      };
      if (drop == 1)
        for (std::size_t i = 0; i < count; ++i) echoes[i] -= is_behind(i) ? 1 : 0;
      else
        for (std::size_t i = 0; i < count; ++i) echoes[i] -= is_behind(i) ? drop : 0;
    }
  }

 private:
  /// A place is compared with all of so few segments.
  static constexpr std::size_t kCompared = 8;

  // The newest first: starts decrease, and echoes increase.
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> echoes_;
};

}  // namespace echobuf
