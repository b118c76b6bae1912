#include "shadow.hpp"

#include <algorithm>
#include <iterator>

namespace echobuf::simulated {

void Shadow::access(std::size_t begin, std::size_t end, const Actor& by, bool write,
                    const Found& found) {
  if (begin >= end || is_noted(begin, end, by.label, write)) return;
  auto first = pieces_.find(begin);
  if (first == pieces_.end() || first->second.end != end) {  // not as the last time
    split(begin);
    split(end);
    first = pieces_.lower_bound(begin);
  }
  auto last = first;
  for (; last != pieces_.end() && last->first < end; ++last)
    compare(last, by, write, found);
  if (write) {
    pieces_.erase(first, last);
    first = pieces_.emplace_hint(last, begin, Piece{end, Cell{by.label, {}}});
  } else {
    first = read(first, begin, end, by.label);
  }
  merge(first, end);
}

bool Shadow::is_noted(std::size_t begin, std::size_t end, const LabelPointer& label,
                      bool write) const {
  auto piece = pieces_.upper_bound(begin);
  if (piece == pieces_.begin()) return false;
  --piece;
  if (piece->second.end < end) return false;
  const Cell& cell = piece->second.cell;
  if (write) return cell.write == label && cell.reads.empty();
  return std::find(cell.reads.begin(), cell.reads.end(), label) != cell.reads.end();
}

std::size_t Shadow::first_unwritten(std::size_t begin, std::size_t end) const {
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin()) --piece;
  while (begin < end) {
    if (piece == pieces_.end() || piece->first > begin) return begin;
    if (piece->second.end <= begin || !piece->second.cell.write) return begin;
    begin = piece->second.end;
    ++piece;
  }
  return end;
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

/// From `piece` on, the first that is not before `begin`. Returns the first that is
/// read.
Shadow::Pieces::iterator Shadow::read(Pieces::iterator piece, std::size_t begin,
                                      std::size_t end, const LabelPointer& label) {
  auto first = pieces_.end();
  for (std::size_t at = begin; at < end; ++piece) {
    if (piece == pieces_.end() || piece->first > at) {  // never touched so far
      const std::size_t until =
          piece == pieces_.end() ? end : std::min(end, piece->first);
      piece = pieces_.emplace_hint(piece, at, Piece{until, Cell{nullptr, {label}}});
    } else {
      add_read(piece->second.cell, label);
    }
    if (at == begin) first = piece;
    at = piece->second.end;
  }
  return first;
}

/// Joins equal neighbours from `first` to `end`, and beyond both.
void Shadow::merge(Pieces::iterator first, std::size_t end) {
  auto piece = first == pieces_.begin() ? first : std::prev(first);
  while (piece->first < end) {
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
