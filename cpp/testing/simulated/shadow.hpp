// The last accesses to the bytes of one block.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "clock.hpp"

namespace echobuf::simulated {

/// Two accesses, at least one a write, that nothing orders.
struct Conflict {
  std::size_t begin, end;
  LabelPointer earlier;
  bool earlier_writes;
};

/// The last write, and the reads since, of each byte: kept by range, byte by byte, so
/// that neighbours do not disturb each other. Ranges with the same history are one.
class Shadow {
 public:
  using Found = std::function<void(const Conflict&)>;

  /// Notes an access to [begin, end), after `found` was told what conflicts with it.
  void access(std::size_t begin, std::size_t end, const Actor& by, bool write,
              const Found& found);

  /// The first byte of [begin, end) that nothing has written; `end` if there is none.
  std::size_t first_unwritten(std::size_t begin, std::size_t end) const;

  /// Tells `found` what a write to all of it would conflict with; notes nothing.
  void check(const Actor& by, const Found& found) const;

 private:
  struct Cell {
    LabelPointer write;
    std::vector<LabelPointer> reads;  // the last of each actor
    bool operator==(const Cell&) const = default;
  };
  struct Piece {
    std::size_t end;
    Cell cell;
  };
  using Pieces = std::map<std::size_t, Piece>;  // by begin; none where never touched

  /// True if the same access to all of [begin, end) was the last one that told
  /// anything, as where threads of one kernel come to the same bytes.
  bool is_noted(std::size_t begin, std::size_t end, const LabelPointer& label,
                bool write) const;
  static void compare(Pieces::const_iterator piece, const Actor& by, bool write,
                      const Found& found);
  static void add_read(Cell& cell, const LabelPointer& label);
  void split(std::size_t at);
  Pieces::iterator read(Pieces::iterator piece, std::size_t begin, std::size_t end,
                        const LabelPointer& label);
  void merge(Pieces::iterator first, std::size_t end);

  Pieces pieces_;
};

}  // namespace echobuf::simulated
