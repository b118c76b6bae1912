// Pinned memory that producers write records into, on their way to the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/buffer/payload_measure.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staged_payload.hpp"
#include "echobuf/cuda/staged_slots.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/payload.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf::cuda {

/// How much of a window on the device fits its staging.
struct StagingSize {
  std::uint64_t slots;
  std::uint64_t units;  // of the payload; 0: records have no rows

  /// About `bytes` of slots, and of payload. At most one segment or, if records have
  /// rows, the window; but the largest record has room, and what one leaves free that
  /// does not wrap around the window's end.
  static StagingSize of(const BufferOptions& options, const RecordLayout& record,
                        const PayloadMeasure& measure, std::size_t bytes) {
    const bool has_rows = options.lengths.any();
    const std::uint64_t slots = std::clamp<std::uint64_t>(
        bytes / record.stride(), 1,
        has_rows ? ring_capacity(options) : largest_segment(options));
    if (!has_rows) return {slots, 0};
    const PayloadSize& payload = measure.size;
    const std::uint64_t most = (measure.most + measure.edge) / payload.unit + 2;
    return {slots, std::min(payload.units, std::max<std::uint64_t>(bytes / payload.unit,
                                                                   2 * most + 1))};
  }
};

/// Slots and, where records have rows, a payload.
class Staging {
 public:
  /// The window on the device.
  struct Window {
    Address slots;
    std::uint64_t capacity;  // slots
    Address payload;         // this and its claims: of records with rows
    const Claims* claims;
  };

  /// Of records without rows; the rest as StagedSlots has it.
  Staging(const SharedContext& context, RecordLayout layout, std::uint64_t slots,
          std::uint64_t lengths, bool shared = false)
      : slots_(context, std::move(layout), slots, lengths, shared) {}
  /// The slots are borrowed: nothing is written.
  Staging(const SharedContext& context, RecordLayout layout,
          const BorrowedSlots& borrowed)
      : slots_(context, std::move(layout), borrowed) {}

  /// Of records with rows. `layout`: of the slots, where fields of rows have no bytes;
  /// the rest as StagedPayload has it.
  Staging(const SharedContext& context, const RecordLayout& layout,
          std::uint64_t capacity, const PayloadSize& payload, const StagingSize& size,
          std::vector<RaggedField> fields, std::uint64_t examples)
      : slots_(context, layout, size.slots, 0),
        payload_(std::make_unique<StagedPayload>(context, capacity, payload, size.units,
                                                 std::move(fields), examples)) {}

  const RecordLayout& layout() const { return slots_.layout(); }
  /// Where the rows of each record are; null: records have none.
  const RowsTable* table() const { return payload_ ? &payload_->table() : nullptr; }
  std::uint64_t slots() const { return slots_.slots(); }
  /// Of the fields of one size, until they are uploaded.
  std::byte* at(std::uint64_t position) const { return slots_.at(position); }
  bool is_borrowed() const { return slots_.is_borrowed(); }
  const SharedMemory* shared_memory() const { return slots_.shared_memory(); }
  /// Of host memory.
  std::size_t bytes() const {
    const std::size_t slots = is_borrowed() ? 0 : slots_.slots() * layout().stride();
    return slots + (payload_ ? payload_->bytes() : 0);
  }

  // ---- producers: as HostStore

  void write(std::uint64_t position, std::uint64_t count, const SourceLeaf* leaves,
             std::uint64_t from, std::size_t rows) {
    slots_.write(position, count, leaves, from, rows);
  }
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples) {
    slots_.write(at.position, 1, leaves, index, examples);
    payload_->write(at, leaves, index, large, examples);
  }
  // ---- producers of records on the device: see StagedSlots and StagedPayload

  void write_field(std::uint64_t position, std::size_t field, const SourceLeaf& leaf,
                   std::uint64_t index, std::size_t bytes) const {
    slots_.write_field(position, field, leaf, index, bytes);
  }
  void note_length(std::uint64_t position, std::uint64_t count, std::size_t rows) {
    slots_.note_length(position, count, rows);
  }
  template <class Visit>
  void place(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             std::uint64_t examples, const Visit& visit) {
    payload_->place(at, leaves, index, examples, visit);
  }
  template <class Piece>
  void stage(const RecordPlace& at, std::uint64_t offset, const std::byte* from,
             std::size_t bytes, const Piece& piece) const {
    payload_->stage(at, offset, from, bytes, nullptr, piece);
    payload_->note_write(at, offset, bytes);
  }

  /// All of its memory is there from the start.
  static constexpr void note_largest(std::uint64_t) {}
  RowCopy streams(std::size_t bytes) const { return payload_->streams(bytes); }

  Misfit note_writes(std::uint64_t position, std::uint64_t count) const {
    slots_.note_writes(position, count);
    return {};
  }

  // ---- the uploader

  /// Records of a run at most.
  std::uint64_t most_of_run() const { return slots_.most_of_run(); }

  /// Enqueues the copies of a run.
  void upload(std::uint64_t first, std::uint64_t count, const Window& window,
              StreamHandle stream) const {
    for (std::uint64_t at = first; at < first + count;) {
      // In pieces that wrap around neither here nor there.
      const std::uint64_t piece =
          std::min({first + count - at, window.capacity - at % window.capacity,
                    slots_.slots() - at % slots_.slots()});
      slots_.upload(at, piece, window.slots, window.capacity, stream);
      at += piece;
    }
    if (payload_)
      payload_->upload(first, count, *window.claims, window.payload, stream);
  }

  /// The examples of a whole batch, until its slot in the window is taken.
  std::size_t length(std::uint64_t position) const { return slots_.length(position); }

 private:
  StagedSlots slots_;
  const std::unique_ptr<StagedPayload> payload_;  // null: records have no rows
};

}  // namespace echobuf::cuda
