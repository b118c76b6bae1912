// The memory of a server's ring: slots, and where records differ in length, a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "echobuf/buffer/payload_backend.hpp"
#include "echobuf/buffer/payload_put_path.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/options.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf::serve {

/// Slots of records of one size.
struct SlotsMemory {
  using PutPath = echobuf::PutPath<Ring, HostStore>;

  /// The window of a new ring.
  static SharedWindow window(const BufferOptions& options, std::uint64_t slots) {
    return {slots, RecordLayout(options.fields, false).stride()};
  }
  static std::uint64_t most(const BufferOptions&) { return 0; }

  /// `memory`: a descriptor of the slots, or -1 for new ones. Positions from `in_use`
  /// on are.
  SlotsMemory(const BufferOptions& options, const RingHeader& header, int memory,
              std::uint64_t in_use)
      : store(RecordLayout(options.fields, false), header.slots, memory),
        // Records that the last server had not published are written again.
        ring(header.slots, header.slots, header.published, in_use, nullptr) {}

  PutPath put_path() { return {ring, store}; }

  HostStore store;
  Ring ring;
};

/// Slots and payload of records that differ in length. `window` and `payload_bytes` of
/// the options: the largest that a job may have.
struct PayloadMemory {
  using PutPath = PayloadPutPath<PayloadRing, PayloadStore>;

  static constexpr std::uint64_t kLargest = 4;  // records in `payload_bytes`

  /// The most bytes of the rows of a record.
  static std::uint64_t most(const BufferOptions& options) {
    return options.lengths.payload_bytes / kLargest;
  }
  /// The payload has room for as many records of the mean size as there are slots, and
  /// so for twice that of a job's window, whatever its segments: it fills one behind
  /// that.
  static SharedWindow window(const BufferOptions& options, std::uint64_t slots) {
    const std::uint64_t most_rows = options.lengths.payload_bytes;
    if (most_rows > LengthOptions::kMostBytes) throw std::bad_alloc();
    const std::uint64_t rows =
        size_product(most_rows / options.window, slots) +
        size_product(most_rows % options.window, slots) / options.window;
    const std::size_t fields = options.lengths.fields.size();
    std::uint64_t edge = 0;
    const PayloadSize size =
        PayloadSize::around(rows, most(options), slots, fields, edge);
    return {slots, record_of(options).stride(), fields, size.unit, size.units};
  }

  PayloadMemory(const BufferOptions& options, const RingHeader& header, int memory,
                std::uint64_t in_use)
      : PayloadMemory(options, header, share(header.window(), memory), in_use) {}

  PutPath put_path() { return {ring, store, most_}; }

  PayloadStore store;
  PayloadRing ring;

 private:
  PayloadMemory(const BufferOptions& options, const RingHeader& header,
                std::shared_ptr<const SharedMemory> memory, std::uint64_t in_use)
      : store(record_of(options), std::move(memory), header.window(),
              options.lengths.fields),
        ring(resume(store, header, in_use)),
        most_(header.most) {}

  static std::shared_ptr<const SharedMemory> share(const SharedWindow& window, int fd) {
    if (fd < 0) return std::make_shared<const SharedMemory>(window.bytes());
    return std::make_shared<const SharedMemory>(fd, window.bytes());
  }

  /// The ring goes on behind the records that are in use. Others may have been
  /// overwritten by ones that were never published.
  static PayloadRing resume(const PayloadStore& store, const RingHeader& header,
                            std::uint64_t in_use) {
    const std::uint64_t slots = header.slots;
    const std::uint64_t first = header.published;
    if (in_use == first) return {slots, header.units, first};
    const auto end_of = [&](std::uint64_t i) { return store.end_of(i % slots); };
    return {slots,  header.units,
            first,  end_of(first - 1),
            in_use, end_of(in_use) - store.units_in(in_use % slots),
            end_of};
  }

  const std::uint64_t most_;
};

}  // namespace echobuf::serve
