// The plan of a leaf that is made, anew at each draw, of a field of any number of rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/schedule/words.hpp"

namespace echobuf {

/// Never changes; any number of buffers may share it.
struct RowsPlan {
  enum class Take {
    kAll,     // the leaf has as many rows as the record
    kRandom,  // a window of `length` rows anywhere in it, one chosen at each draw
    kCenter,  // the window in the middle
  };

  /// Makes so many rows at a time.
  struct Piece {
    std::uint64_t rows;
    std::shared_ptr<const LeafPlan> plan;
  };

  Take take = Take::kAll;
  std::size_t row_bytes = 0;    // of the field
  std::uint64_t length = 0;     // of a window; a shorter record is padded at its end
  std::uint32_t operation = 0;  // that chance knows the window by
  bool mask = false;            // of a window a byte for each row: 0 where it is padded
  std::size_t bytes = 0;        // of a window of the leaf, or of one row of it
  // Of a window one, of all of it, or none: its rows as they are. Of all rows several,
  // the largest first: what they leave is the smallest's, with rows behind the record.
  std::vector<Piece> pieces;
  std::uint32_t row_elements = 0;  // random numbers of a row, where pieces are several

  bool windowed() const { return take != Take::kAll; }

  /// Returns whether it depends on which use of its record a draw is.
  bool alternates() const {
    return transform::alternates(operation) ||
           std::any_of(pieces.begin(), pieces.end(),
                       [](const Piece& piece) { return piece.plan->alternates(); });
  }

  /// Bytes of a row of a window, before it is changed.
  std::size_t window_row() const { return mask ? 1 : row_bytes; }

  /// The first row of a window that leaves `spare` rows out.
  std::uint64_t first_row(const transform::DrawNumber& number,
                          std::uint64_t spare) const {
    if (take == Take::kCenter) return spare / 2;
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    transform::Words words = transform::words_of(number, operation);
    const auto places = static_cast<std::uint32_t>(std::min(spare + 1, kMost));
    return words.place(words.word(), places);
  }

  /// Of what makers need beside it.
  std::size_t maker_bytes() const {
    std::size_t all = windowed() ? length * row_bytes : 0;
    for (const Piece& piece : pieces) all += piece.plan->maker_bytes();
    if (!windowed() && !pieces.empty()) all += pieces.back().rows * (row_bytes + bytes);
    return all;
  }
};

}  // namespace echobuf
