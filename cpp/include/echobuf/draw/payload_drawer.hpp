// Drawing batches of records that differ in length: from the schedule, which their
// lengths shape, to a block of memory. One caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/payload_draw.hpp"
#include "echobuf/draw/payload_planner.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf {

class PayloadDrawer : public PayloadPlanner<PayloadRing, PayloadStore> {
 public:
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  PayloadDrawer(const BufferOptions& options, PayloadRing& ring,
                const PayloadStore& store, const BatchLayout& batch,
                std::shared_ptr<BatchPool> pool, std::uint64_t share,
                std::uint64_t most_bytes, RowsCounts& counts)
      : PayloadPlanner(options, ring, store, share, most_bytes, counts),
        draw_(store, batch, options, std::move(pool)) {}

  /// Draws into a block from the pool: all of a batch, or what cannot wait in the ring
  /// for the rest.
  Outcome draw(Batch& batch, Poll* poll) {
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) return must_set_apart() ? set_apart(poll) : outcome;
    if (outcome != Outcome::kBatch) return outcome;
    if (!draw_.draw(planned(), apart_, options_.lengths.form, batch, poll))
      return Outcome::kInterrupted;
    apart_ = {};
    go_on(false);
    return outcome;
  }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    move_to(epoch, sweep);
    apart_ = {};
  }

  /// Nothing reads slots after the draw.
  void settle() {}

 private:
  Outcome set_apart(Poll* poll) {
    if (!planned().slots.empty() &&
        !draw_.draw(planned(), apart_, LengthOptions::Form::kPacked, apart_, poll))
      return Outcome::kInterrupted;
    go_on(true);
    return Outcome::kWait;
  }

  PayloadDraw draw_;
  Batch apart_;  // the first records of the next batch, packed, where they were set
                 // apart
};

}  // namespace echobuf
