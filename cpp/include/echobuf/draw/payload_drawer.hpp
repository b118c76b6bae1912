// Drawing batches of records that differ in length: from the schedule, which their
// lengths shape, to a block of memory. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/payload_draw.hpp"
#include "echobuf/draw/payload_planner.hpp"
#include "echobuf/draw/rows_out.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

class PayloadDrawer : public PayloadPlanner<Ring> {
 public:
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  PayloadDrawer(const BufferOptions& options, Ring& ring, const HostStore& store,
                const BatchLayout& batch, std::shared_ptr<BatchPool> pool,
                std::uint64_t share, std::uint64_t most_bytes, RowsCounts& counts,
                const Versions& versions)
      : PayloadPlanner(options, ring, *store.table(), share, most_bytes, counts,
                       &versions),
        draw_(store, batch, options, std::move(pool), versions),
        out_(batch, options) {}

  /// See Drawer.
  bool ready() {
    if (PayloadPlanner::ready()) return true;
    if (expires()) static_cast<void>(set_apart(nullptr));
    return false;
  }

  /// Draws into a block from the pool: all of a batch, or what cannot wait in the ring
  /// for the rest.
  Outcome draw(Batch& batch, Poll* poll) { return draw_if(batch, poll, nullptr); }

  /// Draws a batch that fits the caller's memory, and copies it there.
  Outcome draw_rows(RowsTarget& target, Poll* poll) {
    Batch batch;
    const Outcome outcome = draw_if(batch, poll, &target);
    if (outcome == Outcome::kBatch) copy_out(batch, target);
    return outcome;
  }

  /// See RowsOut; for any thread.
  bool fits(const Batch& batch, RowsTarget& target) const {
    return out_.fits(batch, target);
  }
  void copy_out(const Batch& batch, const RowsTarget& target) const {
    out_.copy(batch, target);
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
  /// `target`: that it must fit, or none.
  Outcome draw_if(Batch& batch, Poll* poll, RowsTarget* target) {
    const LengthOptions::Form form = options_.lengths.form;
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) return must_set_apart() ? set_apart(poll) : outcome;
    if (outcome != Outcome::kBatch) return outcome;
    Batch made;
    const std::size_t bytes = draw_.begin(planned(), apart_, form, made);
    if (target && !out_.fits(made, *target)) return Outcome::kResize;
    if (!draw_.draw(planned(), apart_, form, bytes, std::move(made), batch, poll))
      return Outcome::kInterrupted;
    apart_ = {};
    go_on(false);
    return outcome;
  }

  Outcome set_apart(Poll* poll) {
    constexpr LengthOptions::Form kForm = LengthOptions::Form::kPacked;
    if (!planned().slots.empty()) {
      Batch made;
      const std::size_t bytes = draw_.begin(planned(), apart_, kForm, made);
      if (!draw_.draw(planned(), apart_, kForm, bytes, std::move(made), apart_, poll))
        return Outcome::kInterrupted;
    }
    go_on(true);
    return Outcome::kWait;
  }

  PayloadDraw draw_;
  const RowsOut out_;
  Batch apart_;  // the first records of the next batch, packed, where they were set
                 // apart
};

}  // namespace echobuf
