// Pinned memory that producers write records that differ in length into, on their way
// to the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/staging_limits.hpp"

namespace echobuf::cuda {

/// How much of a window on the device fits its staging.
struct StagingSize {
  std::uint64_t slots;
  std::uint64_t units;  // of the payload

  /// At most the window, and about `bytes` of it; but the largest record has room, and
  /// what one leaves free that does not wrap around the window's end.
  static StagingSize of(const RecordLayout& record, std::uint64_t capacity,
                        const PayloadSize& payload, std::uint64_t most_bytes,
                        std::size_t bytes) {
    const std::uint64_t most = most_bytes / payload.unit + 2;
    return {std::clamp<std::uint64_t>(bytes / record.stride(), 1, capacity),
            std::min(payload.units,
                     std::max<std::uint64_t>(bytes / payload.unit, 2 * most + 1))};
  }
};

/// The payload of a record lies in one piece in the window, at its place modulo the
/// window's units, and may wrap around in staging, at its place modulo fewer.
class PayloadStaging {
 public:
  using Rows = RowsTable::Rows;

  /// The window on the device: slots, and payload.
  struct Window {
    Address slots;
    std::uint64_t capacity;
    Address payload;
    const PayloadClaims* claims;  // of both
  };

  /// `capacity`: of the window, and `payload` its payload. `layout`: of the slots,
  /// where the fields of `lengths` have no bytes. `examples`: of a record at most, if
  /// it is a whole batch; else 0.
  PayloadStaging(const SharedContext& context, const RecordLayout& layout,
                 std::uint64_t capacity, const PayloadSize& payload,
                 const StagingSize& size, std::vector<RaggedField> fields,
                 std::uint64_t examples)
      : context_(context),
        slots_(context, layout, size.slots, 0),
        capacity_(capacity),
        examples_(examples),
        units_(size.units),
        bytes_(size_product(size.units, payload.unit)),
        memory_(make_pinned_memory(context, bytes_)),
        payload_(static_cast<std::byte*>(memory_->get())),
        stream_(HostStore::streams(bytes_)),
        table_(capacity, payload.unit, std::move(fields), examples),
        noted_(context->driver().note_host_access()) {}

  const RecordLayout& layout() const { return slots_.layout(); }
  const std::vector<RaggedField>& fields() const { return table_.fields(); }
  std::uint64_t unit() const { return table_.unit(); }
  std::uint64_t slots() const { return slots_.slots(); }
  std::uint64_t units() const { return units_; }
  /// Of host memory.
  std::size_t bytes() const {
    return slots_.slots() * layout().stride() + bytes_ +
           RowsTable::bytes(capacity_, fields().size(), examples_);
  }
  static constexpr const SharedMemory* shared_memory() { return nullptr; }
  static constexpr Misfit note_writes(std::uint64_t, std::uint64_t) { return {}; }

  /// See PayloadStore.
  void units_of(const SourceLeaf* leaves, std::uint64_t from, std::uint64_t count,
                std::uint64_t examples, std::uint64_t* units) const {
    table_.units_of(leaves, from, count, examples, units);
  }

  /// All of its memory is there from the start.
  static constexpr void note_largest(std::uint64_t) {}

  /// See PayloadStore.
  void write(const RecordPlace& at, const SourceLeaf* leaves, std::uint64_t index,
             RowCopy large, std::uint64_t examples) {
    slots_.write(at.position, 1, leaves, index, examples);
    const std::uint64_t window = at.payload.unit * unit();
    const std::uint64_t staged = at.payload.place % units_ * unit();
    const auto copy = [&](std::uint64_t offset, const std::byte* from,
                          std::size_t bytes) {
      // Up to the end of the ring, and from its start on.
      const std::uint64_t begin = (staged + (offset - window)) % bytes_;
      const std::size_t first = std::min<std::size_t>(bytes, bytes_ - begin);
      copy_piece(payload_ + begin, from, first, large);
      copy_piece(payload_, from + first, bytes - first, large);
    };
    table_.write(at.slot, window, leaves, index, examples, copy);
    note_write(staged, table_.units_of(leaves, index, examples) * unit());
  }

  RowCopy streams(std::size_t bytes) const {
    return bytes >= kStreamPut ? stream_ : nullptr;
  }

  /// Until its slot in the window is taken.
  const Rows& rows(std::uint64_t slot, std::size_t index) const {
    return table_.rows(slot, index);
  }
  std::uint64_t examples_of(std::uint64_t slot) const {
    return table_.examples_of(slot);
  }
  const Rows& example(std::uint64_t slot, std::size_t index,
                      std::uint64_t number) const {
    return table_.example(slot, index, number);
  }
  bool in_batches() const { return table_.in_batches(); }
  std::uint64_t bytes_of(std::uint64_t slot) const { return table_.bytes_of(slot); }
  std::uint64_t rows_of(std::uint64_t slot) const { return table_.rows_of(slot); }

  // ---- the uploader

  std::uint64_t most_of_run() const { return slots_.most_of_run(); }

  /// Enqueues the copies of a run: of its slots, and of its payload.
  void upload(std::uint64_t first, std::uint64_t count, const Window& window,
              StreamHandle stream) const {
    const Staging::Window slots{window.slots, window.capacity};
    for (std::uint64_t at = first; at < first + count;) {
      const std::uint64_t piece =
          std::min({first + count - at, window.capacity - at % window.capacity,
                    slots_.slots() - at % slots_.slots()});
      slots_.upload(at, piece, slots, stream);
      at += piece;
    }
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
      const std::uint64_t next = window.claims->end_of(i);
      const std::uint64_t start = start_of(i, next, window);
      if (start == end) {
        end = next;
        continue;
      }
      upload_payload(begin, end, window, stream);
      begin = start;
      end = next;
    }
    upload_payload(begin, end, window, stream);
  }

 private:
  static void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes,
                         RowCopy large) {
    if (large && bytes >= kStreamRow)
      large(to, from, bytes);
    else if (bytes > 0)
      std::memcpy(to, from, bytes);
  }

  void note_write(std::uint64_t at, std::size_t bytes) const {
    if (!noted_ || bytes == 0) return;
    const std::size_t first = std::min<std::size_t>(bytes, bytes_ - at);
    noted_(payload_ + at, first, 1);
    if (bytes > first) noted_(payload_, bytes - first, 1);
  }

  /// The place of the record at `position`, whose payload ends at `end`: it does not
  /// wrap around the window's end.
  std::uint64_t start_of(std::uint64_t position, std::uint64_t end,
                         const Window& window) const {
    const std::uint64_t start = table_.rows(position % capacity_, 0).offset / unit();
    // A record of no bytes may lie at the end.
    return end - (end % window.claims->units() + window.claims->units() - start) %
                     window.claims->units();
  }

  /// In pieces that wrap around neither here nor there.
  void upload_payload(std::uint64_t begin, std::uint64_t end, const Window& window,
                      StreamHandle stream) const {
    while (begin < end) {
      const std::uint64_t count = std::min(
          {end - begin, window.claims->units() - begin % window.claims->units(),
           units_ - begin % units_});
      context_->driver().copy_to_device(
          window.payload + begin % window.claims->units() * unit(),
          static_cast<const void*>(payload_ + begin % units_ * unit()),
          static_cast<std::size_t>(count * unit()), stream);
      begin += count;
    }
  }

  const SharedContext context_;
  Staging slots_;
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
