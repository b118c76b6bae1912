// The arguments of a draw: a part of a pass, and its target.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/schedule/echoes.hpp"
#include "echobuf/schedule/extra_uses.hpp"
#include "echobuf/schedule/part.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"

namespace echobuf {

/// The leaves that a batch is drawn into, and how much of it there is.
struct Target {
  std::byte* const* leaves;
  std::uint64_t count = 0;  // examples
  void* stream = nullptr;   // on a device: where the batch is to be valid
  // On a device: gets the numbers, among the epoch's fresh examples, of its records.
  std::vector<std::int64_t>* records = nullptr;
};

/// The same where records differ in length: the caller brings memory for a batch, which
/// is drawn if it is of the size that the next one has or, with `room`, at least of
/// that.
struct RowsTarget {
  /// A leaf: `rows` of all records, if packed; of each, if padded. `index`: offsets, or
  /// lengths. Of a leaf of one size `values` alone.
  struct Leaf {
    std::byte* values;
    std::byte* index;
    std::uint64_t rows;
  };

  std::vector<Leaf> leaves;  // none: to learn the size
  // Of packed rows, whose leaves have no index: int32 for each value, and int64 for
  // each row.
  std::byte* segments = nullptr;
  std::byte* positions = nullptr;
  std::byte* lengths = nullptr;
  std::uint64_t count = 0;  // records; after a call: those of the next batch
  std::vector<std::uint64_t> needed = {};  // where it does not fit: rows, leaf by leaf
  void* stream = nullptr;                  // see Target
  std::uint64_t room = 0;  // records that there is room for, and then `rows` are at
                           // least those of the batch: what it leaves is padded
  bool captured = false;   // after a call: it is drawn when a graph is launched
  std::vector<std::int64_t>* records = nullptr;  // see Target
};

/// Draws `offset` ... `offset` + `count` - 1 of a pass over the records at `window`.
struct PassPart {
  const Permutation& order;  // of all that the pass sweeps
  std::uint64_t window;      // ring position of the first record
  std::uint64_t offset;
  std::uint64_t count;
  std::uint64_t draw;  // of the epoch: that of the first of them
  std::uint64_t epoch;
  Sparse sparse = {};        // of the window, if the pass does not sweep all of it
  std::uint64_t record = 0;  // that at `window`, of the epoch's fresh examples
  const Echoes* echoes = nullptr;  // of the places of the window; none: not asked for
  SharedSelection selection = nullptr;  // if the pass leaves records out

  /// The draws of the whole pass.
  std::uint64_t of_pass() const {
    return selection ? selection->draws.size() : order.size();
  }

  /// The place in the window of draw `i` of the pass.
  std::uint32_t place(std::uint64_t i) const {
    if (selection) return selection->draws[i];
    return sparse.place(order(static_cast<std::uint32_t>(i)));
  }
  /// Writes those of draws `first` ... `first` + `n` - 1.
  void places(std::uint64_t first, std::uint64_t n, std::uint32_t* to) const {
    if (selection) {
      std::copy_n(selection->draws.data() + first, n, to);
      return;
    }
    permute_range(order, static_cast<std::uint32_t>(first),
                  static_cast<std::uint32_t>(n), to);
    sparse.place_all(to, n);
  }

  /// The uses before of the record at a place; 0, where they are not asked for.
  std::uint32_t echo(std::uint32_t place) const {
    return echoes ? echoes->of(place) : 0;
  }
  /// Writes those of `n` places.
  void echoes_of(const std::uint32_t* places, std::uint64_t n,
                 std::uint32_t* to) const {
    if (echoes) echoes->of(places, n, to);
  }
};

}  // namespace echobuf
