// Claims of a ring of payload, for tests by one thread.
#pragma once

#include <cstdint>

#include "echobuf/store/ring.hpp"
#include "support.hpp"

namespace echobuf::test {

inline Claims::Claim claim(Ring& ring, const Ids& sizes) {
  return ring.claim(sizes.size(), ring.term(), sizes.data());
}

/// Notes where the payload of a claim ends, as those who put do, and says where each
/// record of it lies.
inline Ids note_ends(Ring& ring, const Claims::Claim& claim, const Ids& sizes) {
  std::uint64_t place = claim.place;
  Ids starts;
  for (std::uint64_t i = 0; i < claim.count; ++i) {
    starts.push_back(ring.claims().take(place, sizes[i]));
    ring.claims().end_at(claim.first + i, place);
  }
  return starts;
}

}  // namespace echobuf::test
