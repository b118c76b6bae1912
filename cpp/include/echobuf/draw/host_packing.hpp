// Drawing batches of rows of one length, each packed with whole examples, into host
// memory. One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_packed_rows.hpp"
#include "echobuf/draw/packing.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/rows_out.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

class HostPacking final : public Packing<Ring, HostPackedRows> {
 public:
  HostPacking(const BufferOptions& options, Ring& ring, const HostStore& store,
              const BatchLayout& batch, std::shared_ptr<BatchPool> pool,
              const WindowRows& rows)
      : Packing(options, ring, rows, options, *store.payload(), batch, std::move(pool)),
        out_(batch, options) {}

  bool draws_blocks() const override { return true; }

  Outcome draw(Batch& batch, Poll* poll) override {
    const Outcome outcome = fill(poll);
    if (outcome == Outcome::kBatch) finish(batch);
    return outcome;
  }

  /// Draws a batch that fits the caller's memory, and copies it there.
  Outcome draw_rows(RowsTarget& target, Poll* poll) override {
    const Outcome outcome = fill(poll);
    if (outcome != Outcome::kBatch) return outcome;
    Batch batch;
    batch.count = rows_of_first();
    batch.places.resize(target.leaves.size(), {0, options_.lengths.row_length(), 0});
    if (!out_.fits(batch, target)) return Outcome::kResize;
    finish(batch);
    copy_out(batch, target);
    return outcome;
  }

  bool fits(const Batch& batch, RowsTarget& target) const override {
    return out_.fits(batch, target);
  }
  void copy_out(const Batch& batch, const RowsTarget& target) const override {
    out_.copy(batch, target);
  }

 private:
  void finish(Batch& batch) {
    const std::uint64_t rows = rows_of_first();
    batch = memory_.finish(std::move(first().block), first().rows, rows);
    go_past_first(rows);
  }

  const RowsOut out_;
};

}  // namespace echobuf
