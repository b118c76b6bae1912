// Drawing batches on the device. One caller at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// A batch is planned as a whole and then drawn by one launch, or left in device memory
/// for a graph. Where "auto", or passes that leave records out, wait in its middle, the
/// records that it had are held aside, and are the first part of the next plan.
class DeviceDrawer final : public Planner<StagedRing> {
 public:
  /// Throws std::bad_alloc.
  DeviceDrawer(const BufferOptions& options, StagedRing& ring, DeviceDraw draw,
               Replay& replay, const Versions& versions)
      : Planner(options, ring, {}, Lists::kUses, &versions),
        draw_(std::move(draw)),
        replay_(replay),
        plan_(options) {}

  /// Draws into the caller's leaves: all of a batch or nothing. On a stream that is
  /// being captured: into its graph, and nothing is used up.
  Outcome draw_into(Target& target, Poll* /*poll*/) override {
    const DrawOrder::Call call(draw_.order(), target.stream);
    if (call.capture()) return capture_into(target, *call.capture());
    end_replay();
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) cut(target.stream);
    if (outcome != Outcome::kBatch) return outcome;
    find_parts();
    draw_.draw(plan_, target, length_);
    target.count = options_.ragged ? length_ : plan_.rows();
    held_uses_.clear();
    go_on(false);
    return outcome;
  }

  /// Makes the next batch that of launches on `stream`, until the next call. Only whole
  /// batches are; of others nothing is used up.
  Outcome before_replay(void* on) override {
    const auto stream = static_cast<StreamHandle>(on);
    const DrawOrder::Call call(draw_.order(), stream);
    if (call.capture()) return Outcome::kCapturing;
    Outcome outcome = plan();
    if (outcome == Outcome::kBatch) {
      find_parts();
      if (!is_whole()) outcome = Outcome::kFinished;
    }
    if (outcome != Outcome::kBatch) {
      end_replay();
      if (outcome == Outcome::kWait) cut(stream);
      return outcome;
    }
    finish_replay([](StreamHandle) {});
    draw_.write(plan_, length_, stream);
    replay_.expect(stream);
    held_uses_.clear();
    go_ahead(false);
    return outcome;
  }

  /// Ends what goes on between draws; see DrawOrder::settle().
  void settle() override {
    end_replay();
    draw_.order().settle();
  }

  void restore(const Epoch& epoch, const Sweep& sweep) override {
    move_to(epoch, sweep);
    held_uses_.clear();
  }

 private:
  /// Ends the replay before: a graph that is launched without another before_replay()
  /// draws nothing.
  void end_replay() {
    finish_replay([this](StreamHandle stream) { draw_.erase(stream); });
  }

  /// Its slots are given back once the event behind it is recorded.
  template <class Last>
  void finish_replay(Last&& last) {
    if (!replay_.expected()) return;
    replay_.finish(last);
    give_back();
  }

  Outcome capture_into(Target& target, std::uint64_t capture) {
    if (!replay_.note_capture(capture)) return Outcome::kTwice;
    const std::size_t length = options_.ragged ? draw_.full_length() : 0;
    draw_.capture(target, options_.batch_size, length);
    target.count = options_.ragged ? length : options_.batch_size;
    return Outcome::kCaptured;
  }

  /// Makes parts for the kernels of what is planned, behind what is held.
  void find_parts() {
    plan_.begin({transform::transform_key(options_.seed, epoch_.number),
                 draws(sweep_) - apart_count(),
                 {}});
    if (apart_count() > 0) plan_.add(draw_.held(apart_count()), 0);
    for (const DrawnUse& use : held_uses_) plan_.add_use(use);
    for (const DrawnUse& use : planned().uses) plan_.add_use(use);
    auto slot = planned().slots.begin();
    for (const PassPart& part : planned().parts) {
      if (!part.selection) {
        plan_.add(draw_.part(part.order, part.window, part.offset, part.count),
                  planned().end);
      } else {
        plan_.add(draw_.listed(part.count), planned().end);
        for (std::uint64_t i = 0; i < part.count; ++i) plan_.add_slot(*slot++);
      }
      if (options_.ragged)
        length_ = draw_.length(part.window + part.place(part.offset));
    }
  }

  bool is_whole() const {
    if (options_.ragged) return length_ == draw_.full_length();
    return plan_.rows() == options_.batch_size;
  }

  /// A wait has come, perhaps in the middle of a batch: what cannot wait in the ring
  /// for the rest of it is held aside. Not where that may be there in a moment.
  void cut(StreamHandle stream) {
    const bool is_late =
        options_.automatic ? catching_up() : expires() && is_catching_up();
    if (is_late || !must_set_apart()) return;
    if (planned().records > 0) {
      find_parts();
      draw_.hold(plan_, apart_count() > 0 ? 1 : 0, stream);
      held_uses_ = plan_.uses();
    }
    go_on(true);
  }

  DeviceDraw draw_;
  Replay& replay_;
  Plan plan_;                        // of the batch that is next, for the kernels
  std::vector<DrawnUse> held_uses_;  // of the records that are held
  std::size_t length_ = 0;           // of the batch, where records are ragged
};

}  // namespace echobuf::cuda
