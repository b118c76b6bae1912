// An epoch: where its records lie among the ring's positions.
#pragma once

#include <cstdint>
#include <optional>

namespace echobuf {

/// Also what a loaded state demands of the records that are put again.
struct Epoch {
  std::uint64_t number = 0;
  std::uint64_t base = 0;          // ring position of the first record put
  std::uint64_t origin = 0;        // its index among the epoch's fresh examples
  std::uint64_t required_end = 0;  // records that were resident when a state was taken
  std::optional<std::uint64_t> total;  // length of upstream, where the state knows it

  std::uint64_t position(std::uint64_t record) const {
    return base + (record - origin);
  }
  std::uint64_t record(std::uint64_t position) const {
    return position - base + origin;
  }
};

}  // namespace echobuf
