// Rows on their way to memory, one after the other, at any alignment: where they go
// past the caches they leave in whole lines.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/store/copy.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::transform {

/// A writer to consecutive addresses. A store past the caches must fill a line;
/// an ordinary one of a part of a line first has to fetch it, and those after it wait:
/// so rows are put together in memory of their own, which the first-level cache holds.
class RowSink {
 public:
  /// `most`: bytes that room is asked for at once. `past`: the copy past the caches, or
  /// null. Throws std::bad_alloc.
  RowSink(std::size_t most, RowCopy past) : past_(past) {
    if (!past) return;
    memory_.resize(round_up(std::max(most, kPiece), kLine) + kChunk + 2 * kLine);
    first_ = reinterpret_cast<std::byte*>(
        round_up(reinterpret_cast<std::uintptr_t>(memory_.data()), kLine));
  }
  RowSink(RowSink&&) noexcept = default;  // `first_` points into its memory: no copies
  RowSink& operator=(RowSink&&) noexcept = default;

  void begin(std::byte* target) {
    skip_ = past_ ? reinterpret_cast<std::uintptr_t>(target) % kLine : 0;
    filled_ = skip_;
    to_ = target - skip_;
  }
  /// The place of the next bytes: `most` at most, see the constructor.
  std::byte* room() const { return past_ ? first_ + filled_ : to_; }
  void wrote(std::size_t bytes) {
    if (!past_) {
      to_ += bytes;
      return;
    }
    filled_ += bytes;
    if (filled_ >= kChunk) flush();
  }
  /// Copies `bytes`, as many as there are.
  void write(const std::byte* from, std::size_t bytes) {
    if (past_ && bytes >= kPiece) {  // not worth a way through memory of its own
      const std::size_t ends = (kLine - filled_ % kLine) % kLine;
      put(from, ends);
      flush();
      const std::size_t whole = (bytes - ends) / kLine * kLine;
      past_(to_, from + ends, whole);
      to_ += whole;
      from += ends + whole;
      bytes -= ends + whole;
    }
    put(from, bytes);
  }
  void end() {
    if (!past_) return;
    flush();
    std::memcpy(to_ + skip_, first_ + skip_, filled_ - skip_);
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kPiece = 512;  // of what is copied, at least
  /// Few enough bytes that they leave while the next are computed.
  static constexpr std::size_t kChunk = 768;

  void put(const std::byte* from, std::size_t bytes) {
    std::memcpy(room(), from, bytes);
    wrote(bytes);
  }
  /// Writes what is whole, and keeps the rest.
  void flush() {
    const std::size_t whole = filled_ / kLine * kLine;
    if (whole == 0) return;
    std::size_t from = 0;
    if (skip_ != 0) {  // what is before belongs to others
      std::memcpy(to_ + skip_, first_ + skip_, kLine - skip_);
      from = kLine;
    }
    past_(to_ + from, first_ + from, whole - from);
    std::memcpy(first_, first_ + whole, kLine);
    to_ += whole;
    filled_ -= whole;
    skip_ = 0;
  }

  RowCopy past_;
  std::vector<std::byte> memory_;
  std::byte* first_ = nullptr;
  std::byte* to_ = nullptr;  // of the line that `first_` goes to
  std::size_t filled_ = 0;   // bytes from there on
  std::size_t skip_ = 0;     // of them, not ours
};

}  // namespace echobuf::transform
