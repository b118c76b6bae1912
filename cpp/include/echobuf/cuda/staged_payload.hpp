// Pinned memory for the rows of records on their way to the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/payload.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/slots.hpp"

namespace echobuf::cuda {

/// The payload of a record lies in one piece in the window, at its place modulo the
/// window's units, and may wrap around in staging, at its place modulo fewer.
class StagedPayload {
 public:
  using Rows = RowsTable::Rows;

  /// `capacity`: slots of the window, and `payload` its payload. `units`: of staging.
  /// `examples`: of a record at most, if it is a whole batch; else 0.
  StagedPayload(const SharedContext& context, std::uint64_t capacity,
                const PayloadSize& payload, std::uint64_t units,
                std::vector<RaggedField> fields, std::uint64_t examples)
      : context_(context),
        capacity_(capacity),
        examples_(examples),
        units_(units),
        bytes_(size_product(units, payload.unit)),
        memory_(make_pinned_memory(context, bytes_)),
        payload_(static_cast<std::byte*>(memory_->get())),
        stream_(Slots::streams(bytes_)),
        table_(capacity, payload.unit, std::move(fields), examples),
        noted_(context->driver().note_host_access()) {}

  /// Until its slot in the window is taken, the table has a record's rows.
  const RowsTable& table() const { return table_; }
  std::uint64_t units() const { return units_; }
  /// Of host memory.
  std::size_t bytes() const {
    return bytes_ + RowsTable::bytes(capacity_, table_.fields().size(), examples_);
  }

  /// See Payload.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples) {
    table_.write(at.slot, window_begin(at), leaves, index, examples,
                 [&](std::uint64_t offset, const std::byte* from, std::size_t bytes) {
                   stage(at, offset, from, bytes, large, [](auto&&...) {});
                 });
    note_write(at, window_begin(at), table_.units_of(leaves, index, examples) * unit());
  }

  /// Notes an example without writing its rows: see RowsTable::place().
  template <class Visit>
  void place(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             std::uint64_t examples, const Visit& visit) {
    table_.place(at.slot, window_begin(at), leaves, index, examples, visit);
  }

  /// Writes bytes that go to `offset` of the window's payload. `piece`: is told where
  /// they lie, from which offset on, and how many they are.
  template <class Piece>
  void stage(const RecordPlace& at, std::uint64_t offset, const std::byte* from,
             std::size_t bytes, RowCopy large, const Piece& piece) const {
    // Up to the end of the ring, and from its start on.
    const std::uint64_t begin = staged_begin(at, offset);
    const std::size_t first = std::min<std::size_t>(bytes, bytes_ - begin);
    copy_piece(payload_ + begin, from, first, large);
    copy_piece(payload_, from + first, bytes - first, large);
    piece(payload_ + begin, offset, first);
    if (bytes > first) piece(payload_, offset + first, bytes - first);
  }

  /// Says which bytes were written.
  void note_write(const RecordPlace& at, std::uint64_t offset,
                  std::size_t bytes) const {
    if (!noted_ || bytes == 0) return;
    const std::uint64_t begin = staged_begin(at, offset);
    const std::size_t first = std::min<std::size_t>(bytes, bytes_ - begin);
    noted_(payload_ + begin, first, 1);
    if (bytes > first) noted_(payload_, bytes - first, 1);
  }

  RowCopy streams(std::size_t bytes) const {
    return bytes >= kStreamPut ? stream_ : nullptr;
  }

  // ---- the uploader

  /// Enqueues the copies of a run. `claims`: of the window.
  void upload(std::uint64_t first, std::uint64_t count, const Claims& claims,
              Address window, StreamHandle stream) const {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
      const std::uint64_t next = claims.end_of(i);
      const std::uint64_t start = start_of(i, next, claims.units());
      if (start == end) {
        end = next;
        continue;
      }
      upload_piece(begin, end, claims.units(), window, stream);
      begin = start;
      end = next;
    }
    upload_piece(begin, end, claims.units(), window, stream);
  }

 private:
  std::uint64_t unit() const { return table_.unit(); }

  static void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes,
                         RowCopy large) {
    if (large && bytes >= kStreamRow)
      large(to, from, bytes);
    else if (bytes > 0)
      std::memcpy(to, from, bytes);
  }

  /// Where a record's rows begin in the window, and where those at an offset there lie
  /// here.
  std::uint64_t window_begin(const RecordPlace& at) const {
    return at.payload.unit * unit();
  }
  std::uint64_t staged_begin(const RecordPlace& at, std::uint64_t offset) const {
    return (at.payload.place % units_ * unit() + (offset - window_begin(at))) % bytes_;
  }

  /// The place of the record at `position`, whose payload ends at `end`: it does not
  /// wrap around the window's end.
  std::uint64_t start_of(std::uint64_t position, std::uint64_t end,
                         std::uint64_t units) const {
    const std::uint64_t start = table_.rows(position % capacity_, 0).offset / unit();
    // A record of no bytes may lie at the end.
    return end - (end % units + units - start) % units;
  }

  /// In pieces that wrap around neither in the window, which has `units`, nor here.
  void upload_piece(std::uint64_t begin, std::uint64_t end, std::uint64_t units,
                    Address window, StreamHandle stream) const {
    while (begin < end) {
      const std::uint64_t count =
          std::min({end - begin, units - begin % units, units_ - begin % units_});
      context_->driver().copy_to_device(
          window + begin % units * unit(),
          static_cast<const void*>(payload_ + begin % units_ * unit()),
          static_cast<std::size_t>(count * unit()), stream);
      begin += count;
    }
  }

  const SharedContext context_;
  const std::uint64_t capacity_;
  const std::uint64_t examples_;
  const std::uint64_t units_;
  const std::size_t bytes_;
  const std::unique_ptr<PinnedMemory> memory_;
  std::byte* const payload_;
  const RowCopy stream_;
  RowsTable table_;
  const NoteHostAccess noted_;
};

}  // namespace echobuf::cuda
