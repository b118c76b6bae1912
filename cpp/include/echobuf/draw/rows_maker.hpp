// Carries out the plan of a leaf on the rows of one record after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "echobuf/draw/rows_copy.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/schedule/words.hpp"
#include "echobuf/store/copy.hpp"

namespace echobuf {

/// One caller at a time.
class RowsMaker {
 public:
  /// `plan` and `pad`, of a row of the field, must outlive it. `past_caches`: what it
  /// writes is larger than these. Throws std::bad_alloc; nothing is allocated later.
  RowsMaker(const RowsPlan& plan, const std::vector<std::byte>& pad, bool past_caches)
      : plan_(plan), row_bytes_(plan.row_bytes), pad_(pad) {
    for (const RowsPlan::Piece& piece : plan.pieces)
      pieces_.push_back({piece.rows, piece.plan->maker(past_caches)});
    if (plan.windowed()) {
      source_.resize(plan.length * plan.window_row());
    } else if (!pieces_.empty()) {
      source_.resize(pieces_.back().rows * row_bytes_);
      target_.resize(pieces_.back().rows * plan.bytes);
    }
  }

  const RowsPlan& plan() const { return plan_; }

  /// Makes what is to lie at `target` of the rows of a record.
  void make(Drawn drawn, const RowsSource& source, std::byte* target) {
    const std::uint64_t rows = source.bytes / row_bytes_;
    if (!plan_.windowed()) return make_all(drawn, source.data, rows, target);
    drawn.example = window(drawn, source.data, rows);
    if (!pieces_.empty())
      pieces_.front().maker->make(drawn, target);
    else if (!source_.empty())
      std::memcpy(target, drawn.example, source_.size());
  }

 private:
  struct Piece {
    std::uint64_t rows;
    std::unique_ptr<LeafMaker> maker;
  };

  /// That operations count: places are int32 there.
  static constexpr std::uint64_t kMostRows = std::numeric_limits<std::int32_t>::max();

  /// The window of a record, in its place or, padded, in memory of our own.
  const std::byte* window(const Drawn& drawn, const std::byte* data,
                          std::uint64_t rows) {
    const std::uint64_t length = plan_.length;
    const std::uint64_t own = std::min(rows, length);
    if (plan_.mask) {
      std::memset(source_.data(), 1, own);
      std::memset(source_.data() + own, 0, length - own);
      return source_.data();
    }
    if (rows >= length) {
      transform::DrawNumber number{transform::transform_key(drawn.seed, drawn.epoch),
                                   drawn.draw, drawn.row};
      number.record = drawn.record;
      number.echo = drawn.echo;
      return data + plan_.first_row(number, rows - length) * row_bytes_;
    }
    if (own > 0) std::memcpy(source_.data(), data, own * row_bytes_);
    fill_rows(source_.data() + own * row_bytes_, (length - own) * row_bytes_, pad_);
    return source_.data();
  }

  /// Each piece makes as many rows as it can, and the last one what they leave: there
  /// it reads and makes rows that are not the record's.
  void make_all(Drawn& drawn, const std::byte* data, std::uint64_t rows,
                std::byte* target) {
    drawn.rows = static_cast<std::uint32_t>(std::min(rows, kMostRows));
    std::uint64_t done = 0;
    for (const Piece& piece : pieces_)
      for (; rows - done >= piece.rows; done += piece.rows)
        make_piece(piece, drawn, done, data + done * row_bytes_,
                   target + done * plan_.bytes);
    if (done == rows) return;
    const std::size_t left = rows - done;
    std::memcpy(source_.data(), data + done * row_bytes_, left * row_bytes_);
    make_piece(pieces_.back(), drawn, done, source_.data(), target_.data());
    std::memcpy(target + done * plan_.bytes, target_.data(), left * plan_.bytes);
  }

  void make_piece(const Piece& piece, Drawn& drawn, std::uint64_t row,
                  const std::byte* data, std::byte* target) const {
    drawn.first_element = static_cast<std::uint32_t>(row) * plan_.row_elements;
    drawn.first_row = static_cast<std::uint32_t>(std::min(row, kMostRows));
    drawn.example = data;
    piece.maker->make(drawn, target);
  }

  const RowsPlan& plan_;
  const std::size_t row_bytes_;
  const std::vector<std::byte>& pad_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
};

}  // namespace echobuf
