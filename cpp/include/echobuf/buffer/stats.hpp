// A buffer in numbers: what it needs, and what it has done.
#pragma once

#include <cstdint>

#include "echobuf/sync/clocks.hpp"

namespace echobuf {

/// Memory of a buffer: slots, allocated once, and the batches that it holds itself. On
/// a device: one, which is the plan of the next batch and, for "auto", its records.
struct BufferNeeds {
  std::uint64_t slots;
  std::uint64_t bytes_per_slot;
  std::uint64_t batches;
  std::uint64_t bytes_per_batch;
  std::uint64_t more = 0;  // bytes, however many there are of these
};

/// Of the current epoch, but for `resident` and `bytes`, which are of the memory.
struct BufferStats {
  std::uint64_t fresh = 0;
  std::uint64_t served = 0;
  std::uint64_t expired = 0;  // draws that were given up: see max_staleness
  std::uint64_t passes = 0;
  std::uint64_t resident = 0;
  std::uint64_t bytes = 0;         // on the host
  std::uint64_t device_bytes = 0;  // on the device
  double put_wait_s = 0;
  double next_wait_s = 0;
  double t_upstream_s = kUnknown;    // of upstream's own time, for a fresh example
  double t_downstream_s = kUnknown;  // of the consumer's own time, for a draw
  double wait_share = 0;             // of the consumer's time, in waits

  // Of records that differ in length.
  std::uint64_t payload_bytes = 0;     // of the payload ring that are taken
  std::uint64_t payload_capacity = 0;  // of the payload ring
  double mean_rows = kUnknown;         // of a field of a fresh record
  double padding_share = kUnknown;     // of the rows drawn

  /// R; kUnknown until both are known.
  double ratio() const {
    return t_downstream_s > 0 ? t_upstream_s / t_downstream_s : kUnknown;
  }
};

}  // namespace echobuf
