// Places of the draws that come next. A permutation makes a block of them in the time
// of one: what a batch leaves of a block, the next one begins with.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "echobuf/draw/part.hpp"

namespace echobuf {

class PlacesAhead {
 public:
  /// Makes a block of the places behind a part, whose pass goes on, unless it has some.
  /// Passes that leave records out have their places already, and may change them.
  void look_behind(const PassPart& part) {
    const std::uint64_t next = part.offset + part.count;
    const std::uint64_t draw = part.draw + part.count;
    if (part.selection || knows(draw)) return;
    const auto count = std::min<std::uint64_t>(places_.size(), part.of_pass() - next);
    part.places(next, count, places_.data());
    first_ = draw;
    end_ = draw + count;
  }

  /// Writes the places of `n` draws of a pass, behind the first `done` of a part.
  void write(const PassPart& part, std::uint64_t done, std::uint64_t n,
             std::uint32_t* to) const {
    const std::uint64_t draw = part.draw + done;
    std::uint64_t known = 0;
    if (knows(draw)) {
      known = std::min(n, end_ - draw);
      std::copy_n(places_.data() + (draw - first_), known, to);
    }
    part.places(part.offset + done + known, n - known, to + known);
  }

  /// The next draws are of another epoch, or go on elsewhere in this one.
  void forget() { first_ = end_ = 0; }

 private:
  bool knows(std::uint64_t draw) const { return first_ <= draw && draw < end_; }

  std::array<std::uint32_t, 128> places_;
  std::uint64_t first_ = 0;  // draws of the epoch, from `first_` to `end_`, that it has
  std::uint64_t end_ = 0;
};

}  // namespace echobuf
