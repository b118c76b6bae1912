// Helpers of tests of packed rows: records whose every value is their number.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "ragged_support.hpp"

namespace echobuf::test {

using LengthOf = std::function<std::uint64_t(std::uint64_t id)>;

/// From one value to a whole row, most of them short.
inline LengthOf row_lengths(std::uint64_t pack_to) {
  return [=](std::uint64_t id) {
    SmallRandom random(id * 91);
    const std::uint64_t up_to = random() % 4 == 0 ? pack_to : (pack_to + 2) / 3;
    return 1 + random() % up_to;
  };
}

/// A record has two fields of one length: numbers of eight bytes, and of two.
inline BufferOptions packing(std::uint64_t window, std::uint64_t rows, Ratio factor,
                             std::uint64_t pack_to) {
  BufferOptions options = numbered(window, rows, factor);
  options.fields = {{8, 1}, {2, 1}};
  options.lengths.fields = {{0, 8, pack_to}, {1, 2, pack_to}};
  options.lengths.pack_to = pack_to;
  return options;
}

/// Records in memory, as put() takes them.
class PackingRecords {
 public:
  PackingRecords(std::uint64_t first, std::uint64_t end, const LengthOf& length)
      : size_(end - first) {
    offsets_.push_back(0);
    for (std::uint64_t id = first; id < end; ++id) {
      numbers_.insert(numbers_.end(), length(id), id);
      offsets_.push_back(static_cast<std::int64_t>(numbers_.size()));
    }
    small_.reserve(numbers_.size());
    for (const std::uint64_t id : numbers_)
      small_.push_back(static_cast<std::uint16_t>(id));
    leaves_[0] = {reinterpret_cast<const std::byte*>(numbers_.data()), 0, 0,
                  offsets_.data()};
    leaves_[1] = {reinterpret_cast<const std::byte*>(small_.data()), 0, 0,
                  offsets_.data()};
  }
  PackingRecords(const PackingRecords&) = delete;
  PackingRecords& operator=(const PackingRecords&) = delete;

  const SourceLeaf* leaves() const { return leaves_; }
  std::uint64_t size() const { return size_; }

 private:
  std::uint64_t size_;
  Ids numbers_;
  std::vector<std::uint16_t> small_;
  std::vector<std::int64_t> offsets_;
  SourceLeaf leaves_[2] = {};
};

/// Looks at every value of a batch, and returns the numbers of the records of each row.
inline std::vector<Ids> read_rows(const Batch& batch, const BufferOptions& options,
                                  const LengthOf& length_of) {
  const std::uint64_t length = options.lengths.pack_to;
  const std::byte* const block = batch.block.data();
  const auto* numbers =
      reinterpret_cast<const std::uint64_t*>(block + batch.places[0].values);
  const auto* small =
      reinterpret_cast<const std::uint16_t*>(block + batch.places[1].values);
  const auto* ids = reinterpret_cast<const std::int32_t*>(block + batch.ids.segments);
  const auto* positions =
      reinterpret_cast<const std::int32_t*>(block + batch.ids.positions);
  const auto* lengths =
      reinterpret_cast<const std::int64_t*>(block + batch.ids.lengths);
  std::vector<Ids> rows(batch.count);
  for (std::uint64_t row = 0; row < batch.count; ++row) {
    const std::uint64_t used = static_cast<std::uint64_t>(lengths[row]);
    EXPECT_LE(used, length);
    std::uint64_t at = row * length;
    const std::uint64_t end = at + used;
    while (at < end) {
      const std::uint64_t id = numbers[at];
      rows[row].push_back(id);
      const std::uint64_t length_of_id = length_of(id);
      for (std::uint64_t i = 0; i < length_of_id; ++i, ++at)
        if (at >= end || numbers[at] != id ||
            small[at] != static_cast<std::uint16_t>(id) ||
            ids[at] != static_cast<std::int32_t>(rows[row].size()) ||
            positions[at] != static_cast<std::int32_t>(i)) {
          ADD_FAILURE() << "record " << id << " is torn";
          return rows;
        }
    }
    for (; at < (row + 1) * length; ++at)
      if (numbers[at] != 0 || small[at] != 0 || ids[at] != 0 || positions[at] != 0) {
        ADD_FAILURE() << "row " << row << " has no zeros at its end";
        return rows;
      }
  }
  return rows;
}

}  // namespace echobuf::test
