// The launches of the kernels for records that differ in length, behind their tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/kernels.hpp"
#include "echobuf/draw/rows_moves.hpp"

namespace echobuf::cuda {

/// The device's context is the calling thread's.
class RowsLaunch {
 public:
  /// `words`: of a table at most.
  RowsLaunch(SharedContext context, DrawOrder& order, const Kernels& kernels,
             std::size_t words)
      : context_(std::move(context)),
        order_(order),
        kernels_(kernels),
        table_(context_, words),
        captured_(context_, words) {}

  /// Waits for the last draw, which reads the table.
  ~RowsLaunch() { order_.await_draws(); }
  RowsLaunch(const RowsLaunch&) = delete;
  RowsLaunch& operator=(const RowsLaunch&) = delete;

  const SharedContext& context() const { return context_; }
  /// Waits for the last draw: then memory that it read may be freed.
  void await() { order_.await_draws(); }
  DrawTable& table() { return table_; }
  /// That captured launches read. It begins with a word that is 0 where these are to
  /// draw nothing, and has room for another one.
  DrawTable& captured_table() { return captured_; }
  const DrawTable& captured_table() const { return captured_; }
  std::size_t device_bytes() const {
    return table_.device_bytes() + captured_.device_bytes();
  }
  static std::size_t device_bytes(std::size_t words) {
    return 2 * DrawTable::bytes(words);
  }
  static constexpr std::size_t kLive = 2;  // words that `captured_table` begins with

  /// Enqueues the copy of the table, launches that draw `leaves` of records below ring
  /// position `end`, and what `behind` enqueues.
  template <class Behind>
  void draw(std::vector<RowsLeaf>& leaves, std::uint64_t end, StreamHandle stream,
            Behind&& behind) {
    order_.ordered(stream, end, [&] {
      table_.send(stream);
      enqueue(leaves, stream);
      std::forward<Behind>(behind)();
      order_.note_draw(stream);
    });
  }
  void draw(std::vector<RowsLeaf>& leaves, std::uint64_t end, StreamHandle stream) {
    draw(leaves, end, stream, [] {});
  }

  /// The launches alone, for `behind`.
  void enqueue(std::span<RowsLeaf> leaves, StreamHandle stream) const {
    launch_all(leaves, 0, stream);
  }

  /// Puts launches that draw `leaves` into the graph that is being captured: their
  /// tables are of captured_table().
  void capture(std::vector<RowsLeaf>& leaves, StreamHandle stream) const {
    launch_all(leaves, captured_.begin_address(), stream);
  }

  /// Enqueues the copy of captured_table(), for launches that come later on the same
  /// stream; they read records below ring position `end`. That they have is for the
  /// caller to note.
  void send_captured(std::uint64_t end, StreamHandle stream) {
    order_.ordered(stream, end, [&] { captured_.send(stream); });
  }

  /// From now on captured launches on `stream` draw nothing.
  void erase_captured(StreamHandle stream) {
    captured_.begin();
    std::fill_n(captured_.add(kLive), kLive, 0);
    captured_.send(stream);
  }

  /// The same for `count` records that go to places of their own; `moves` lacks leaves.
  template <class Behind>
  void place(PlaceMoves moves, const std::vector<PlacedLeaf>& leaves,
             std::uint64_t count, std::uint64_t end, StreamHandle stream,
             Behind&& behind) {
    order_.ordered(stream, end, [&] {
      table_.send(stream);
      moves.marks = 1;
      std::size_t first = 0;
      do {  // once, if stages make all leaves: for the marks
        const std::size_t some =
            std::min<std::size_t>(kRowsLeaves, leaves.size() - first);
        std::copy_n(leaves.begin() + static_cast<std::ptrdiff_t>(first), some,
                    moves.leaf);
        moves.leaves = static_cast<std::uint32_t>(some);
        launch(kernels_.place_rows, moves, count * moves.pieces, stream);
        moves.marks = 0;
        first += kRowsLeaves;
      } while (first < leaves.size());
      std::forward<Behind>(behind)();
      order_.note_draw(stream);
    });
  }

 private:
  /// Launches that draw `leaves`; none draws where the word at `live` is 0.
  void launch_all(std::span<RowsLeaf> leaves, Address live, StreamHandle stream) const {
    for (std::size_t first = 0; first < leaves.size(); first += kRowsLeaves) {
      RowsMoves moves;
      moves.live = live;
      const std::size_t some =
          std::min<std::size_t>(kRowsLeaves, leaves.size() - first);
      for (std::size_t i = 0; i < some; ++i) {
        RowsLeaf& leaf = leaves[first + i];
        moves.words += rows_words(leaf.base, leaf.bytes);
        leaf.words = moves.words;
        moves.leaf[i] = leaf;
      }
      constexpr std::uint64_t kWords = std::uint64_t{kRowsThreads} * kRowsAtOnce;
      launch(kernels_.draw_rows, moves, (moves.words + kWords - 1) / kWords, stream);
    }
  }

  template <class Moves>
  void launch(FunctionHandle kernel, Moves& moves, std::uint64_t blocks,
              StreamHandle stream) const {
    if (blocks == 0) return;
    void* arguments[] = {&moves};
    context_->driver().launch(kernel, static_cast<unsigned>(blocks), 1u, 1u,
                              kRowsThreads, 1u, 1u, 0u, stream, arguments,
                              static_cast<void**>(nullptr));
  }

  const SharedContext context_;
  DrawOrder& order_;
  const Kernels kernels_;
  DrawTable table_;
  DrawTable captured_;
};

/// A leaf of so many bytes.
inline RowsLeaf rows_leaf_at(Address base, std::uint64_t bytes) {
  RowsLeaf leaf;
  leaf.base = base;
  leaf.bytes = bytes;
  return leaf;
}

/// `leaf`, of so many records, with what its addresses allow to copy at once.
inline RowsLeaf of_records(RowsLeaf leaf, std::uint64_t records) {
  leaf.records = static_cast<std::uint32_t>(records);
  const std::uint64_t all = leaf.base | leaf.row | 8;
  leaf.grain = static_cast<std::uint32_t>(all & (~all + 1));
  return leaf;
}

/// The bytes of a pattern by addresses modulo 16, where it begins at `base`.
inline Word rows_padding(const std::vector<std::byte>& pattern, Address base) {
  Word word{0, 0};
  for (std::uint64_t i = 0; i < 16 && !pattern.empty(); ++i) {
    const auto byte = static_cast<std::uint64_t>(pattern[i % pattern.size()]);
    const std::uint64_t at = (base + i) % 16;
    (at < 8 ? word.low : word.high) |= byte << (at % 8 * 8);
  }
  return word;
}

}  // namespace echobuf::cuda
