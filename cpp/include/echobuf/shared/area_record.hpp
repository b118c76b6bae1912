// The layout of an example that has rows in the memory of its worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::workers {

/// The sizes of an area, in bytes.
struct AreaSizes {
  /// An example lies behind the one before it if it ends below this: pages above are
  /// touched by larger examples alone.
  std::uint64_t usual;
  std::uint64_t all;
};

/// How many rows each field of any length has, a slot of the fields of one size, and
/// the rows; each at a multiple of kFieldAlignment.
class AreaRecord {
 public:
  /// `slot`: where the fields of any length have no bytes. `most`: bytes of the rows of
  /// an example.
  AreaRecord(RecordLayout slot, std::vector<RaggedField> fields, std::uint64_t most)
      : slot_(std::move(slot)),
        fields_(std::move(fields)),
        most_(most),
        counts_bytes_(
            round_up(fields_.size() * sizeof(std::uint64_t), kFieldAlignment)) {
    if (fields_.empty() || most_ > LengthOptions::kMostBytes)
      throw std::invalid_argument("examples need fields of a limited length");
  }

  std::uint64_t most() const { return most_; }

  /// Returns sizes for the largest example, and usually for `ahead` of twice the mean.
  AreaSizes sizes(std::uint64_t mean, std::uint64_t ahead) const {
    const std::uint64_t largest = round_up(bytes(most_), kFieldAlignment);
    const std::uint64_t usual = std::min(
        size_product(ahead, largest),
        std::max<std::uint64_t>(kLeastUsual,
                                2 * size_product(ahead, bytes(std::min(mean, most_)))));
    return {round_up(usual, kFieldAlignment),
            std::max(largest, round_up(usual, kFieldAlignment))};
  }

  /// The bytes that an example of `leaves` takes. Throws std::invalid_argument if its
  /// rows are more than there may be.
  std::uint64_t bytes_of(const SourceLeaf* leaves) const {
    std::uint64_t bytes = counts_bytes_ + slot_.stride();
    std::uint64_t left = most_;
    for (const RaggedField& field : fields_) {
      const std::uint64_t rows = leaves[field.field].rows_of(0);
      if (rows > left / field.row_bytes)
        throw std::invalid_argument("an example is larger than it may be");
      left -= rows * field.row_bytes;
      bytes += round_up(rows * field.row_bytes, kFieldAlignment);
    }
    return bytes;
  }

  void write(std::byte* to, const SourceLeaf* leaves) const {
    std::byte* rows_to = to + counts_bytes_ + slot_.stride();
    write_record(slot_, to + counts_bytes_, leaves, 0, 0, nullptr);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const SourceLeaf& leaf = leaves[fields_[i].field];
      const std::uint64_t rows = leaf.rows_of(0);
      std::memcpy(to + i * sizeof rows, &rows, sizeof rows);
      const std::size_t bytes = rows * fields_[i].row_bytes;
      const std::byte* const from =
          leaf.data + leaf.first_row_of(0) * fields_[i].row_bytes;
      if (bytes > 0) std::memcpy(rows_to, from, bytes);
      rows_to += round_up(bytes, kFieldAlignment);
    }
  }

  /// Returns the leaves of an example that was written at `from`; none if it says that
  /// it has more than `room` bytes, as one that was damaged may.
  std::optional<std::vector<SourceLeaf>> read(const std::byte* from,
                                              std::uint64_t room) const {
    std::uint64_t at = counts_bytes_ + slot_.stride();
    if (room < at) return std::nullopt;
    std::vector<SourceLeaf> leaves;
    leaves.reserve(slot_.fields().size());
    for (const Field& field : slot_.fields())
      leaves.push_back({from + counts_bytes_ + field.offset, 0});
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      std::uint64_t rows = 0;  // a copy: the worker may change it meanwhile
      std::memcpy(&rows, from + i * sizeof rows, sizeof rows);
      if (rows > (room - at) / fields_[i].row_bytes) return std::nullopt;
      SourceLeaf& leaf = leaves[fields_[i].field];
      leaf.data = from + at;
      leaf.rows = rows;
      at += std::min(room - at, round_up(rows * fields_[i].row_bytes, kFieldAlignment));
    }
    return leaves;
  }

 private:
  /// An area of small examples takes no less: a page of memory is not divided.
  static constexpr std::uint64_t kLeastUsual = std::uint64_t{64} << 10;

  /// Of an example whose rows have so many bytes.
  std::uint64_t bytes(std::uint64_t rows) const {
    return counts_bytes_ + slot_.stride() + rows + fields_.size() * kFieldAlignment;
  }

  const RecordLayout slot_;
  const std::vector<RaggedField> fields_;
  const std::uint64_t most_;
  const std::size_t counts_bytes_;
};

/// Returns the mean bytes of the rows of an example, as far as the options tell.
inline std::uint64_t mean_bytes(const BufferOptions& options) {
  if (options.lengths.payload_bytes > 0)
    return options.lengths.payload_bytes / options.window;
  return options.lengths.bounded_bytes();
}

}  // namespace echobuf::workers
