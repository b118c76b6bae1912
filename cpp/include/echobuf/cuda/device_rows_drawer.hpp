// Drawing batches of records that differ in length on the device. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/rows_draw.hpp"
#include "echobuf/cuda/staged_payload_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

class DeviceRowsDrawer final : public Planner<StagedPayloadRing> {
 public:
  DeviceRowsDrawer(const BufferOptions& options, StagedPayloadRing& ring,
                   const Staging& staging, const WindowRows& rows,
                   const Versions& versions, const SharedContext& context,
                   const BatchLayout& batch, DrawOrder& order,
                   const Staging::Window& window, const RowsKernels& kernels,
                   const std::vector<StageKernels>& stages)
      : Planner(options, ring, rows, Lists::kUses, &versions),
        order_(order),
        draw_(context, staging, batch, options, order, window, kernels, stages),
        replay_(order) {}

  /// Of the tables, and for batches that wait in the middle.
  std::size_t device_bytes() const { return draw_.device_bytes(); }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout& batch) {
    return RowsDraw::own_bytes(options, batch);
  }

  /// Draws all of a batch, or says how large it is. What cannot wait in the ring for
  /// the rest of a batch is copied to memory of our own, on the caller's stream. On a
  /// stream that is being captured: into its graph, and nothing is used up.
  Outcome draw_rows(RowsTarget& target, Poll* /*poll*/) override {
    const auto stream = static_cast<StreamHandle>(target.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) return capture_into(target, *call.capture());
    end_replay();
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) cut(stream);
    if (outcome != Outcome::kBatch) return outcome;
    draw_.find_records(planned());
    if (!is_fitting(target)) return Outcome::kResize;
    draw_.draw(target, planned().end, options_.lengths.form);
    draw_.forget_apart();
    go_on(false);
    return outcome;
  }

  /// Makes the next batch that of launches on the stream of `target`, until the next
  /// call, if it fits the rows that this names; none for any. Only whole batches are;
  /// of others nothing is used up.
  Outcome before_replay_rows(RowsTarget& target) override {
    if (options_.lengths.max_rows > 0 || !draw_.can_capture())
      return Outcome::kCapturing;
    const auto stream = static_cast<StreamHandle>(target.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) return Outcome::kCapturing;
    Outcome outcome = plan();
    if (outcome == Outcome::kBatch) {
      draw_.find_records(planned());
      if (draw_.examples() != options_.most_examples())
        outcome = Outcome::kFinished;
      else if (!target.leaves.empty() && !is_fitting(target))
        outcome = Outcome::kResize;
    }
    if (outcome != Outcome::kBatch) {
      end_replay();
      if (outcome == Outcome::kWait) cut(stream);
      return outcome;
    }
    finish_replay([](StreamHandle) {});
    draw_.send(planned().end, options_.lengths.form, stream);
    replay_.expect(stream);
    draw_.forget_apart();
    this->go_ahead(false);
    return outcome;
  }

  void restore(const Epoch& epoch, const Sweep& sweep) override {
    move_to(epoch, sweep);
    draw_.forget_apart();
  }

  /// Ends what goes on between draws; see DrawOrder::settle().
  void settle() override {
    end_replay();
    order_.settle();
  }

  /// To be called on a stream before the first draw.
  void prepare(StreamHandle stream) { draw_.erase(stream); }

 private:
  /// Returns whether the memory is of the batch's size, or has room for it; says what
  /// that is, else.
  bool is_fitting(RowsTarget& target) const {
    const std::size_t leaves = draw_.leaves();
    const bool roomy = target.room > 0;
    bool fit =
        target.leaves.size() == leaves &&
        (roomy ? target.room >= draw_.examples() : target.count == draw_.examples());
    target.needed.resize(leaves);
    for (std::size_t i = 0; i < leaves; ++i) {
      target.needed[i] = draw_.rows_of(i, options_.lengths.form);
      if (!fit) continue;
      const std::uint64_t rows = target.leaves[i].rows;
      fit = roomy ? rows >= target.needed[i] : rows == target.needed[i];
    }
    target.count = draw_.examples();
    return fit;
  }

  /// A wait has come in the middle of a batch: what cannot wait in the ring for the
  /// rest of it is copied to memory of our own. Not where it may be there in a moment.
  void cut(StreamHandle stream) {
    const bool is_late =
        options_.automatic ? catching_up() : expires() && is_catching_up();
    if (is_late || !must_set_apart()) return;
    draw_.find_records(planned());
    if (!planned().slots.empty()) draw_.set_apart(planned().end, stream);
    go_on(true);
  }

  /// Ends the replay before: a graph that is launched without another before_replay()
  /// draws nothing.
  void end_replay() {
    finish_replay([this](StreamHandle stream) { draw_.erase(stream); });
  }

  /// Its slots and rows are given back once the event behind it is recorded.
  template <class Last>
  void finish_replay(Last&& last) {
    if (!replay_.expected()) return;
    replay_.finish(last);
    this->give_back();
  }

  Outcome capture_into(RowsTarget& target, std::uint64_t capture) {
    const std::uint64_t count = options_.most_examples();
    if (options_.lengths.max_rows > 0 || !draw_.can_capture() || target.room != count ||
        target.leaves.size() != draw_.leaves())
      return Outcome::kCapturing;
    if (!replay_.note_capture(capture)) return Outcome::kTwice;
    draw_.capture(target, options_.lengths.form);
    target.count = count;
    target.captured = true;
    return Outcome::kCaptured;
  }

  DrawOrder& order_;
  RowsDraw draw_;
  Replay replay_;  // goes first: it waits
};

}  // namespace echobuf::cuda
