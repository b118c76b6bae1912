// Drawing batches of rows of one length, each packed with whole examples, into host
// memory. One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_rows.hpp"
#include "echobuf/draw/rows_filler.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf {

class RowsDrawer : public RowsFiller<PayloadRing, PayloadStore, HostRows> {
 public:
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  RowsDrawer(const BufferOptions& options, PayloadRing& ring, const PayloadStore& store,
             const BatchLayout& batch, std::shared_ptr<BatchPool> pool,
             std::uint64_t share, std::uint64_t most_bytes, RowsCounts& counts)
      : RowsFiller(options, ring, store, share, most_bytes, counts, options, store,
                   batch, std::move(pool)) {}

  Outcome draw(Batch& batch, Poll* poll) {
    const Outcome outcome = fill(poll);
    if (outcome != Outcome::kBatch) return outcome;
    const std::uint64_t rows = rows_of_first();
    batch = memory_.finish(std::move(first().block), first().rows, rows);
    go_past_first(rows);
    return outcome;
  }
};

}  // namespace echobuf
