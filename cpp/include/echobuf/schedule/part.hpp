// A part of a pass: the draws that a step of a walk takes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "echobuf/schedule/extra_uses.hpp"
#include "echobuf/schedule/span.hpp"

namespace echobuf {

/// The draws of a pass that leaves some of the window's records out.
struct Selection {
  std::vector<std::uint32_t> draws;  // places in the window, in the order of the draws
  std::uint64_t first = 0;           // the record at place 0
  std::uint64_t places = 0;          // records in the window
  std::int64_t oldest = 0;           // version: records with lower ones are left out
};

/// Of one pass: null, if it leaves nothing out.
using SharedSelection = std::shared_ptr<const Selection>;

/// The next draws: `count` of them from `pass` over `window`, from `offset` on.
struct Part {
  std::uint64_t pass = 0;
  Span window{0, 0};
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  std::uint64_t draw = 0;  // of the epoch: that of the first of them
  Sparse sparse;           // of the window, if not all of it is swept
  SharedSelection selection{};

  /// The records that the whole pass sweeps.
  std::uint64_t swept() const { return window.count - sparse.left_out(); }
  /// The draws of the whole pass.
  std::uint64_t of_pass() const {
    return selection ? selection->draws.size() : swept();
  }
};

}  // namespace echobuf
