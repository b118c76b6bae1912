// The memory of a server's ring: slots, and where records differ in length, a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "echobuf/buffer/payload_measure.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/options.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/payload_size.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf::serve {

/// The most bytes of the rows of a record. `window` and `payload_bytes` of the options:
/// the largest that a job may have.
inline std::uint64_t most_of(const BufferOptions& options) {
  constexpr std::uint64_t kLargest = 4;  // records in `payload_bytes`
  return options.lengths.payload_bytes / kLargest;
}

/// The window of a new ring. A payload has room for as many records of the mean size as
/// there are slots, and so for twice that of a job's window, whatever its segments: it
/// fills one behind that.
inline SharedWindow window_of(const BufferOptions& options, std::uint64_t slots) {
  const std::uint64_t stride = record_of(options).stride();
  if (!options.lengths.any()) return {slots, stride};
  const std::uint64_t most_rows = options.lengths.payload_bytes;
  if (most_rows > LengthOptions::kMostBytes) throw std::bad_alloc();
  const std::uint64_t rows =
      size_product(most_rows / options.window, slots) +
      size_product(most_rows % options.window, slots) / options.window;
  const std::size_t fields = options.lengths.fields.size();
  std::uint64_t edge = 0;
  const PayloadSize size =
      PayloadSize::around(rows, most_of(options), slots, fields, edge);
  return {slots, stride, fields, size.unit, size.units};
}

/// Slots and, where records have rows, a payload.
struct RingMemory {
  /// `memory`: a descriptor of it, or -1 for new memory. Positions from `in_use` on
  /// are.
  RingMemory(const BufferOptions& options, const RingHeader& header, int memory,
             std::uint64_t in_use)
      : store(make_store(options, header, memory)),
        // Records that the last server had not published are written again.
        ring(shape_of(store, header, in_use)),
        put_path(ring, store, header.most) {
    if (!store.table()) return;
    for (std::uint64_t i = in_use; i < header.published; ++i)
      ring.claims().end_at(i, store.payload()->end_of(ring.slot(i)));
  }

  HostStore store;
  Ring ring;
  PutPath<Ring, HostStore> put_path;

 private:
  static HostStore make_store(const BufferOptions& options, const RingHeader& header,
                              int memory) {
    if (!options.lengths.any()) return {record_of(options), header.slots, memory};
    const SharedWindow window = header.window();
    auto shared = memory < 0
                      ? std::make_shared<const SharedMemory>(window.bytes())
                      : std::make_shared<const SharedMemory>(memory, window.bytes());
    return {record_of(options), shared, window, options.lengths.fields};
  }

  /// The ring goes on behind the records that are in use. Others may have been
  /// overwritten by ones that were never published.
  static RingShape shape_of(const HostStore& store, const RingHeader& header,
                            std::uint64_t in_use) {
    const std::uint64_t slots = header.slots;
    const std::uint64_t first = header.published;
    if (!store.table()) return {.capacity = slots, .first = first, .released = in_use};
    if (in_use == first)
      return {.capacity = slots, .units = header.units, .first = first};
    const std::uint64_t oldest = in_use % slots;
    const Payload& payload = *store.payload();
    return {
        .capacity = slots,
        .units = header.units,
        .first = first,
        .place = payload.end_of((first - 1) % slots),
        .released = in_use,
        .released_place = payload.end_of(oldest) - payload.table().units_in(oldest)};
  }
};

}  // namespace echobuf::serve
