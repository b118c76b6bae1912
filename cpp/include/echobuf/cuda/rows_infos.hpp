// Infos of batches of records that differ in length on the device: part of the table of
// a draw, and copied from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/rows_moves.hpp"
#include "echobuf/leaf_options.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The values of each kind of info, of so many examples, and their address, one kind
/// behind another.
class RowsInfos {
 public:
  /// `any`: a leaf of batches is an info; else it takes nothing. `begin`: its address.
  RowsInfos(bool any, Address begin, std::uint64_t examples)
      : any_(any), begin_(begin), examples_(examples) {}

  std::size_t words() const { return any_ ? kKinds * words_of_kind() : 0; }
  static std::size_t words(bool any, std::uint64_t examples) {
    return RowsInfos(any, 0, examples).words();
  }

  /// Writes the words of the table: of each example its record's use. `whole`: there is
  /// one record, with all of them.
  void fill(const std::vector<DrawnUse>& uses, bool whole, std::uint64_t* words) const {
    for (std::size_t kind = 0; any_ && kind < kKinds; ++kind) {
      auto* const bytes = reinterpret_cast<std::byte*>(words);
      const std::size_t size = info_bytes(info_of(kind));
      for (std::size_t i = 0; i < examples_; ++i)
        write(info_of(kind), uses[whole ? 0 : i], bytes + i * size);
      words[words_of_kind() - 2] = address_of(kind);
      words += words_of_kind();
    }
  }

  /// Copies an info to address `to`.
  RowsLeaf leaf(InfoLeaf info, Address to) const {
    const auto kind = static_cast<std::size_t>(info) - 1;
    const std::size_t size = info_bytes(info);
    RowsLeaf leaf = rows_leaf_at(to, examples_ * size);
    leaf.sources = address_of(kind) + 8 * (words_of_kind() - 2);
    leaf.each = leaf.bytes;
    leaf.row = size;
    return of_records(leaf, 1);
  }

 private:
  static constexpr std::size_t kKinds = 3;

  static InfoLeaf info_of(std::size_t kind) { return static_cast<InfoLeaf>(kind + 1); }

  static void write(InfoLeaf info, const DrawnUse& use, std::byte* to) {
    switch (info) {
      case InfoLeaf::kIndex:
        std::memcpy(to, &use.record, sizeof(use.record));
        break;
      case InfoLeaf::kEcho:
        std::memcpy(to, &use.echo, sizeof(use.echo));
        break;
      case InfoLeaf::kVersion:
        std::memcpy(to, &use.version, sizeof(use.version));
        break;
      case InfoLeaf::kNone:
        break;
    }
  }

  /// Its values, then their address, at multiples of 16 bytes.
  std::size_t words_of_kind() const { return round_up(examples_, 2) + 2; }
  Address address_of(std::size_t kind) const {
    return begin_ + 8 * kind * words_of_kind();
  }

  bool any_;
  Address begin_;
  std::uint64_t examples_;
};

}  // namespace echobuf::cuda
