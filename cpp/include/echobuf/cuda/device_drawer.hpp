// Drawing batches of whole records on the device. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/kernels.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/rows_draw.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// A batch is planned as a whole and then drawn by few launches, or left in device
/// memory for a graph. Where a wait comes in its middle, the records that it had and
/// that cannot wait in the ring are set apart, and are the first of the next plan.
class DeviceDrawer final : public Planner<StagedRing> {
 public:
  /// All must outlive it. Throws Error, std::bad_alloc.
  DeviceDrawer(const BufferOptions& options, StagedRing& ring, const Staging& staging,
               const WindowRows& rows, const Versions& versions,
               const SharedContext& context, const BatchLayout& batch, DrawOrder& order,
               const Staging::Window& window, const Kernels& kernels,
               const std::vector<StageKernels>& stages)
      : Planner(options, ring, rows, Lists::kUses, &versions),
        order_(order),
        replay_(order) {
    if (rows.table)
      rows_.emplace(context, staging, batch, options, order, window, kernels, stages);
    else
      fixed_.emplace(context, staging, batch, options, order, window, kernels, stages);
  }

  /// The device memory that it takes by now, and from the start.
  std::size_t device_bytes() const {
    return rows_ ? rows_->device_bytes() : fixed_->device_bytes();
  }
  static std::size_t own_bytes(const BufferOptions& options, const RecordLayout& record,
                               const BatchLayout& batch) {
    return options.lengths.any() ? RowsDraw::own_bytes(options, batch)
                                 : DeviceDraw::own_bytes(options, record, batch);
  }

  /// To be called on a stream before the first draw: captured draws draw nothing.
  void erase(StreamHandle stream) {
    if (rows_)
      rows_->erase(stream);
    else
      fixed_->erase(stream);
  }

  /// Draws into the caller's leaves: all of a batch or nothing. On a stream that is
  /// being captured: into its graph, and nothing is used up.
  Outcome draw_into(Target& target, Poll* /*poll*/) override {
    return fixed_ ? draw_by(*fixed_, target) : Outcome::kCapturing;
  }
  /// The same of records with rows, if the batch fits.
  Outcome draw_rows(RowsTarget& target, Poll* /*poll*/) override {
    return rows_ ? draw_by(*rows_, target) : Outcome::kCapturing;
  }

  /// Makes the next batch that of launches on the stream of `target`, until the next
  /// call, if it fits the rows that this names; none for any. Only whole batches are;
  /// of others nothing is used up.
  Outcome before_replay(RowsTarget& target) override {
    return rows_ ? replay_by(*rows_, target) : replay_by(*fixed_, target);
  }

  /// Ends what goes on between draws; see DrawOrder::settle().
  void settle() override {
    end_replay();
    order_.settle();
  }

  void restore(const Epoch& epoch, const Sweep& sweep) override {
    move_to(epoch, sweep);
    if (rows_)
      forget_apart(*rows_);
    else
      forget_apart(*fixed_);
  }

 private:
  // `Draw`: DeviceDraw or RowsDraw.

  /// `to`: what that draws into.
  template <class Draw, class To>
  Outcome draw_by(Draw& draw, To& to) {
    const auto stream = static_cast<StreamHandle>(to.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) {
      if (!draw.can_capture(to)) return Outcome::kCapturing;
      if (!replay_.note_capture(*call.capture())) return Outcome::kTwice;
      draw.capture(to);
      return Outcome::kCaptured;
    }
    end_replay();
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) cut(draw, stream);
    if (outcome != Outcome::kBatch) return outcome;
    draw.find(planned());
    if (!draw.fits(to)) return Outcome::kResize;
    draw.draw(to);
    if (to.records) {
      *to.records = apart_records_;
      list_records(*to.records);
    }
    forget_apart(draw);
    go_on(false);
    return outcome;
  }

  template <class Draw>
  Outcome replay_by(Draw& draw, RowsTarget& target) {
    if (!draw.has_graphs()) return Outcome::kCapturing;
    const auto stream = static_cast<StreamHandle>(target.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) return Outcome::kCapturing;
    Outcome outcome = plan();
    if (outcome == Outcome::kBatch) {
      draw.find(planned());
      if (!draw.is_whole())
        outcome = Outcome::kFinished;
      else if (!draw.fits_captured(target))
        outcome = Outcome::kResize;
    }
    if (outcome != Outcome::kBatch) {
      end_replay();
      if (outcome == Outcome::kWait) cut(draw, stream);
      return outcome;
    }
    finish_replay([](StreamHandle) {});
    draw.send(stream);
    replay_.expect(stream);
    forget_apart(draw);
    go_ahead(false);
    return outcome;
  }

  /// A wait has come, perhaps in the middle of a batch: what cannot wait in the ring
  /// for the rest of it is set apart. Not where that may be there in a moment.
  template <class Draw>
  void cut(Draw& draw, StreamHandle stream) {
    const bool is_late =
        options_.automatic ? catching_up() : expires() && is_catching_up();
    if (is_late || !must_set_apart()) return;
    if (planned().records > 0) {
      draw.find(planned());
      draw.set_apart(stream);
      list_records(apart_records_);
    }
    go_on(true);
  }

  template <class Draw>
  void forget_apart(Draw& draw) {
    draw.forget_apart();
    apart_records_.clear();
  }

  /// Ends the replay before: a graph that is launched without another before_replay()
  /// draws nothing.
  void end_replay() {
    finish_replay([this](StreamHandle stream) { erase(stream); });
  }

  /// Its slots and rows are given back once the event behind it is recorded.
  template <class Last>
  void finish_replay(Last&& last) {
    if (replay_.finish(last)) give_back();
  }

  DrawOrder& order_;
  std::optional<DeviceDraw> fixed_;  // or, where records have rows,
  std::optional<RowsDraw> rows_;
  std::vector<std::int64_t> apart_records_;  // see Target::records
  Replay replay_;                            // goes first: it waits
};

}  // namespace echobuf::cuda
