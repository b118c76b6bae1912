// Memory in which a worker process leaves examples that differ in length, until the
// trainer has put them into the ring.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/options.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_memory.hpp"

namespace echobuf::workers {

/// The sizes of an area, in bytes.
struct AreaSizes {
  /// An example lies behind the one before it if it ends below this: pages above are
  /// touched by larger examples alone.
  std::uint64_t usual;
  std::uint64_t all;
};

/// The layout of an example in an area: how many rows each field of any length has, a
/// slot of the fields of one size, and the rows; each at a multiple of kFieldAlignment.
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

  const RecordLayout& slot() const { return slot_; }
  std::uint64_t most() const { return most_; }

  /// Of an example whose rows have so many bytes.
  std::uint64_t bytes(std::uint64_t rows) const {
    return counts_bytes_ + slot_.stride() + rows + fields_.size() * kFieldAlignment;
  }

  /// An area holds the largest example, and usually `ahead` of twice the mean.
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

/// Lies in front of an area: where the examples of the worker's tickets are.
struct AreaHeader {
  struct Run {
    std::uint64_t ticket;  // plus 1: 0 is of none
    std::uint64_t begin;
    std::uint64_t end;
  };

  // Tickets below were put, or given up. Written by the trainer. Release: pairs with
  // the worker's acquire; the trainer has read their examples.
  std::atomic<std::uint64_t> collected{0};
  // Written by the worker; they come with WorkerQueue::done. Ticket t's is at
  // t % kDepth.
  std::array<Run, WorkerQueue::kDepth> runs{};
};

/// The areas of all workers.
class RowsAreas {
 public:
  RowsAreas(std::uint64_t workers, const AreaSizes& sizes)
      : sizes_(sizes), memory_(size_product(workers, stride(sizes))) {
    for (std::uint64_t i = 0; i < workers; ++i)
      new (memory_.data() + i * stride(sizes)) AreaHeader;
  }

  /// Maps those of another process. Throws what SharedMemory throws.
  RowsAreas(int fd, std::uint64_t workers, const AreaSizes& sizes)
      : sizes_(sizes), memory_(fd, size_product(workers, stride(sizes))) {}

  const SharedMemory& memory() const { return memory_; }
  const AreaSizes& sizes() const { return sizes_; }

  AreaHeader& header(std::uint64_t i) const {
    return *std::launder(
        reinterpret_cast<AreaHeader*>(memory_.data() + i * stride(sizes_)));
  }
  std::byte* data(std::uint64_t i) const {
    return memory_.data() + i * stride(sizes_) + kHeader;
  }

  /// Returns the example of a ticket of worker `i`; none if the worker has written
  /// nonsense.
  std::optional<std::vector<SourceLeaf>> read(std::uint64_t i, std::uint64_t ticket,
                                              const AreaRecord& record) const {
    const AreaHeader::Run run = header(i).runs[ticket % WorkerQueue::kDepth];
    if (run.ticket != ticket + 1 || run.begin % kFieldAlignment != 0 ||
        run.begin > sizes_.all)
      return std::nullopt;
    return record.read(data(i) + run.begin, sizes_.all - run.begin);
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kHeader =
      (sizeof(AreaHeader) + kPage - 1) / kPage * kPage;

  static std::size_t stride(const AreaSizes& sizes) {
    if (sizes.all > 2 * LengthOptions::kMostBytes) throw std::bad_alloc();
    return kHeader + round_up(sizes.all, kPage);
  }

  const AreaSizes sizes_;
  const SharedMemory memory_;
};

}  // namespace echobuf::workers
