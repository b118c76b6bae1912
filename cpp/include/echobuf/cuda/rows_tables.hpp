// The layout of the table of a draw of records that differ in length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/rows_infos.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The tables of so many records, and of their examples, in the device's memory, one
/// behind another: of slots, and of each field sources, offsets or lengths, and where
/// these are; and of infos.
struct RowsTables {
  struct Field {
    Address sources;
    Address index;  // offsets, or lengths
    Address cell;   // where the address of `index` is
  };

  RowsTables(Address begin, std::uint64_t records, std::uint64_t examples,
             std::size_t count, bool has_infos)
      : records(records), examples(examples), slots(begin) {
    Address at = begin + 8 * round_up(records, 2);
    for (std::size_t f = 0; f < count; ++f) {
      const Address index = at + 8 * round_up(examples, 2);
      const Address cell = index + 8 * round_up(examples + 1, 2);
      fields.push_back({at, index, cell});
      at = cell + std::uint64_t{8} * 2;
    }
    infos = RowsInfos(has_infos, at, examples);
    words = (at - begin) / 8 + infos.words();
  }

  std::uint64_t records;
  std::uint64_t examples;
  Address slots;
  std::vector<Field> fields;
  RowsInfos infos{false, 0, 0};  // behind all else
  std::size_t words;
};

}  // namespace echobuf::cuda
