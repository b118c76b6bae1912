// Drawing batches of records that differ in length on the device. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "echobuf/buffer/options.hpp"
#include "echobuf/cuda/payload_staging.hpp"
#include "echobuf/cuda/rows_draw.hpp"
#include "echobuf/cuda/staged_payload_ring.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/payload_planner.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"

namespace echobuf::cuda {

class DevicePayloadDrawer : public PayloadPlanner<StagedPayloadRing, PayloadStaging> {
 public:
  static constexpr bool kInBlocks = false;  // batches are the caller's memory alone

  DevicePayloadDrawer(const BufferOptions& options, StagedPayloadRing& ring,
                      const PayloadStaging& staging, std::uint64_t share,
                      std::uint64_t most_bytes, RowsCounts& counts,
                      const SharedContext& context, const BatchLayout& batch,
                      DrawOrder& order, const PayloadStaging::Window& window,
                      const RowsKernels& kernels)
      : PayloadPlanner(options, ring, staging, share, most_bytes, counts),
        draw_(context, staging, batch, options, order, window, kernels) {}

  /// Of the table, and for batches that wait in the middle.
  std::size_t device_bytes() const { return draw_.device_bytes(); }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout&) {
    return DrawTable::bytes(
        RowsDraw::table_words(options, options.lengths.fields.size()));
  }

  /// Draws all of a batch, or says how large it is. What cannot wait in the ring for
  /// the rest of a batch is copied to memory of our own, on the caller's stream.
  Outcome draw_rows(RowsTarget& target) {
    const DeviceContext::Scope scope(draw_.context());
    const auto stream = static_cast<StreamHandle>(target.stream);
    if (draw_.context().driver().capture_of(stream)) return Outcome::kCapturing;
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait && !catching_up() && must_set_apart()) {
      draw_.find_records(planned());
      if (!planned().slots.empty()) draw_.set_apart(planned().end, stream);
      go_on(true);
    }
    if (outcome != Outcome::kBatch) return outcome;
    draw_.find_records(planned());
    if (!fits(target)) return Outcome::kResize;
    draw_.draw(target, planned().end, options_.lengths.form);
    draw_.forget_apart();
    go_on(false);
    return outcome;
  }

  // The calls of other buffers: these are not for records that differ in length.
  Outcome draw_into(Target&, Poll*) { return Outcome::kCapturing; }
  Outcome before_replay(StreamHandle) { return Outcome::kCapturing; }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    move_to(epoch, sweep);
    draw_.forget_apart();
  }

  /// No launch is read unseen.
  void settle() {}

 private:
  /// Returns whether the memory is of the batch's size; says what that is, else.
  bool fits(RowsTarget& target) const {
    const std::size_t leaves = draw_.leaves();
    bool fit = target.leaves.size() == leaves && target.count == draw_.examples();
    target.needed.resize(leaves);
    for (std::size_t i = 0; i < leaves; ++i) {
      target.needed[i] = draw_.rows_of(i, options_.lengths.form);
      fit = fit && target.leaves[i].rows == target.needed[i];
    }
    target.count = draw_.examples();
    return fit;
  }

  RowsDraw draw_;
};

}  // namespace echobuf::cuda
