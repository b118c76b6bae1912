#include "shadow.hpp"

#include <iterator>

namespace echobuf::simulated {

void Shadow::access(std::size_t begin, std::size_t end, const Actor& by, bool write,
                    const Found& found) {
  if (begin >= end) return;
  split(begin);
  split(end);
  const auto first = pieces_.lower_bound(begin), last = pieces_.lower_bound(end);
  for (auto piece = first; piece != last; ++piece) compare(piece, by, write, found);
  if (write) {
    pieces_.erase(first, last);
    pieces_.emplace(begin, Piece{end, Cell{by.label, {}}});
  } else {
    read(begin, end, by.label);
  }
  merge(begin, end);
}

void Shadow::check(const Actor& by, const Found& found) const {
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece)
    compare(piece, by, true, found);
}

void Shadow::compare(Pieces::const_iterator piece, const Actor& by, bool write,
                     const Found& found) {
  const auto& [begin, rest] = *piece;
  const Cell& cell = rest.cell;
  if (cell.write && !by.is_after(*cell.write))
    found({begin, rest.end, cell.write, true});
  if (!write) return;
  for (const LabelPointer& read : cell.reads)
    if (!by.is_after(*read)) found({begin, rest.end, read, false});
}

// An actor's own accesses are ordered, so whatever is after its last read is after all.
void Shadow::add_read(Cell& cell, const LabelPointer& label) {
  for (LabelPointer& read : cell.reads) {
    if (read->actor != label->actor) continue;
    if (read->tick < label->tick) read = label;
    return;
  }
  cell.reads.push_back(label);
}

/// Makes `at` a boundary, if it lies within a piece.
void Shadow::split(std::size_t at) {
  auto next = pieces_.upper_bound(at);
  if (next == pieces_.begin()) return;
  const auto piece = std::prev(next);
  if (piece->first == at || piece->second.end <= at) return;
  pieces_.emplace_hint(next, at, piece->second);
  piece->second.end = at;
}

void Shadow::read(std::size_t begin, std::size_t end, const LabelPointer& label) {
  auto piece = pieces_.lower_bound(begin);
  for (std::size_t at = begin; at < end;) {
    if (piece == pieces_.end() || piece->first > at) {  // never touched so far
      const std::size_t until =
          piece == pieces_.end() ? end : std::min(end, piece->first);
      pieces_.emplace_hint(piece, at, Piece{until, Cell{nullptr, {label}}});
      at = until;
    } else {
      add_read(piece->second.cell, label);
      at = piece->second.end;
      ++piece;
    }
  }
}

/// Joins equal neighbours within, and at both ends of, [begin, end).
void Shadow::merge(std::size_t begin, std::size_t end) {
  auto piece = pieces_.lower_bound(begin);
  if (piece != pieces_.begin()) --piece;
  while (piece != pieces_.end() && piece->first < end) {
    const auto next = std::next(piece);
    if (next == pieces_.end()) return;
    if (piece->second.end == next->first && piece->second.cell == next->second.cell) {
      piece->second.end = next->second.end;
      pieces_.erase(next);
    } else {
      piece = next;
    }
  }
}

}  // namespace echobuf::simulated
