// The memory of a server's ring: slots, and where records differ in length, a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <variant>

#include "echobuf/buffer/payload_backend.hpp"
#include "echobuf/buffer/payload_put_path.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/options.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/payload_store.hpp"
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

/// Slots of records of one size.
struct SlotsMemory {
  /// `memory`: a descriptor of the slots, or -1 for new ones. Positions from `in_use`
  /// on are.
  SlotsMemory(const BufferOptions& options, const RingHeader& header, int memory,
              std::uint64_t in_use)
      : store(RecordLayout(options.fields, false), header.slots, memory),
        // Records that the last server had not published are written again.
        ring(header.slots, header.slots, header.published, in_use, nullptr) {}

  HostStore store;
  Ring ring;
  PutPath<Ring, HostStore> put_path{ring, store};
};

/// Slots and payload of records that differ in length.
struct PayloadMemory {
  PayloadMemory(const BufferOptions& options, const RingHeader& header, int memory,
                std::uint64_t in_use)
      : store(record_of(options), share(header.window(), memory), header.window(),
              options.lengths.fields),
        ring(resume(store, header, in_use)),
        put_path(ring, store, header.most) {}

  PayloadStore store;
  PayloadRing ring;
  PayloadPutPath<PayloadRing, PayloadStore> put_path;

 private:
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
};

/// Of either kind: a branch a call. `act` is called with the ring that there is, or
/// with the store, or the put path.
class RingMemory {
 public:
  RingMemory(const BufferOptions& options, const RingHeader& header, int memory,
             std::uint64_t in_use)
      : kind_(make(options, header, memory, in_use)) {}

  template <class Act>
  decltype(auto) on_ring(Act&& act) {
    return std::visit([&](auto& kind) { return act(kind.ring); }, kind_);
  }
  template <class Act>
  decltype(auto) on_ring(Act&& act) const {
    return std::visit([&](auto& kind) { return act(kind.ring); }, kind_);
  }
  template <class Act>
  decltype(auto) on_store(Act&& act) const {
    return std::visit([&](auto& kind) -> decltype(auto) { return act(kind.store); },
                      kind_);
  }
  template <class Act>
  decltype(auto) on_put_path(Act&& act) {
    return std::visit([&](auto& kind) { return act(kind.put_path); }, kind_);
  }

 private:
  using Kind = std::variant<SlotsMemory, PayloadMemory>;

  static Kind make(const BufferOptions& options, const RingHeader& header, int memory,
                   std::uint64_t in_use) {
    if (options.lengths.any())
      return Kind(std::in_place_type<PayloadMemory>, options, header, memory, in_use);
    return Kind(std::in_place_type<SlotsMemory>, options, header, memory, in_use);
  }

  Kind kind_;
};

}  // namespace echobuf::serve
