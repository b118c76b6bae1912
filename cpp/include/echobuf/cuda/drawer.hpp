// Drawing batches on the device. One caller at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/cuda/draw.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

/// A batch is planned as a whole and then drawn by one launch, or left in device memory
/// for a graph. Where "auto", or passes that leave records out, wait in its middle, the
/// records that it had are held aside, and are the first part of the next plan.
class DeviceDrawer : public PassCursor<StagedRing> {
 public:
  static constexpr bool kInBlocks = false;  // batches are the caller's memory alone

  /// Throws std::bad_alloc.
  DeviceDrawer(const BufferOptions& options, StagedRing& ring, DeviceDraw draw,
               Replay& replay, const Versions& versions)
      : PassCursor(options, ring, &versions),
        draw_(std::move(draw)),
        replay_(replay),
        versions_(versions),
        plan_(options),
        after_(sweep_) {}

  /// Draws into the caller's leaves: all of a batch or nothing. On a stream that is
  /// being captured: into its graph, and nothing is used up.
  Outcome draw_into(Target& target, Poll*) {
    const DrawOrder::Call call(draw_.order(), target.stream);
    if (call.capture()) return capture_into(target, *call.capture());
    end_replay();
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait && !catching_up_) cut(target.stream);
    if (outcome != Outcome::kBatch) return outcome;
    draw_.draw(plan_, target, length_);
    target.count = options_.ragged ? length_ : plan_.rows();
    go_on();
    release(oldest_record(sweep_));
    return outcome;
  }

  /// Makes the next batch that of launches on `stream`, until the next call. Only whole
  /// batches are; of others nothing is used up.
  Outcome before_replay(StreamHandle stream) {
    const DrawOrder::Call call(draw_.order(), stream);
    if (call.capture()) return Outcome::kCapturing;
    Outcome outcome = plan();
    if (outcome == Outcome::kBatch && !is_whole()) outcome = Outcome::kFinished;
    if (outcome != Outcome::kBatch) {
      end_replay();
      if (outcome == Outcome::kWait && !catching_up_) cut(stream);
      return outcome;
    }
    finish_replay([](StreamHandle) {});
    draw_.write(plan_, length_, stream);
    replay_.expect(stream);
    go_on();
    return outcome;
  }

  /// See PassCursor; what is on its way comes first.
  std::uint64_t wanted() {
    return catching_up_ ? ring_.extent().committed : PassCursor::wanted();
  }

  /// Ends what goes on between draws; see DrawOrder::settle().
  void settle() {
    end_replay();
    draw_.order().settle();
  }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    move_to(epoch, sweep);
    partial_count_ = 0;
    held_uses_.clear();
    catching_up_.reset();
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
    release(oldest_record(sweep_));
  }

  Outcome capture_into(Target& target, std::uint64_t capture) {
    if (!replay_.note_capture(capture)) return Outcome::kTwice;
    const std::size_t length = options_.ragged ? draw_.full_length() : 0;
    draw_.capture(target, options_.batch_size, length);
    target.count = options_.ragged ? length : options_.batch_size;
    return Outcome::kCaptured;
  }

  /// Walks on a copy of the schedule until a batch is sure.
  Outcome plan() {
    plan_.begin({transform::transform_key(options_.seed, epoch_.number),
                 draws(sweep_) - partial_count_,
                 {}});
    if (partial_count_ > 0) plan_.add(draw_.held(partial_count_), 0);
    for (const DrawnUse& use : held_uses_) plan_.add_use(use);
    after_ = sweep_;
    return std::visit([this](auto& walk) { return walk_on(walk); }, after_);
  }

  template <class S>
  Outcome walk_on(S& walk) {
    while (plan_.rows() < options_.batch_size) {
      if constexpr (S::kDrawsPartly)
        if (walk.between_passes() && is_catching_up()) return Outcome::kWait;
      const UpstreamProgress progress = look(walk);
      if (lacking(progress)) return why_lacking(progress);
      S next = walk;
      Part part;
      const Step step = next.step(progress, options_.batch_size - plan_.rows(), part);
      if (step == Step::kFinished) {
        note_finished(next);
        break;
      }
      if constexpr (S::kDrawsPartly)
        if (walk.between_passes()) ring_.clear_held_back();
      walk = next;
      if (step == Step::kWait) return waits(walk);
      add(walk, part);
    }
    return servable(plan_.rows()) ? Outcome::kBatch : Outcome::kFinished;
  }

  /// All records that were put by now decide what "auto" sweeps next, however far the
  /// uploader is: a draw waits for these to be uploaded, and not for later ones.
  bool is_catching_up() {
    if (ring_.behind()) {
      if (!catching_up_) catching_up_ = ring_.staged_end();
      if (ring_.extent().committed < *catching_up_) return true;
    }
    catching_up_.reset();
    return false;
  }

  Outcome waits(const FixedSweep& walk) {
    std::get<FixedSweep>(sweep_).note_need(walk.need());
    if (expires()) is_catching_up();  // then nothing is held aside
    return Outcome::kWait;
  }
  Outcome waits(const AutoSweep&) { return Outcome::kWait; }

  template <class S>
  void add(const S& walk, const Part& part) {
    if (part.selection) return add_selected(walk, part);
    const Permutation& order = order_of(part);
    const std::uint64_t window = epoch_.position(part.window.first);
    if (options_.ragged)
      length_ = draw_.length(window + order(static_cast<std::uint32_t>(part.offset)));
    plan_.add(draw_.part(order, window, part.offset, part.count),
              window + part.window.count);
    if (const Echoes* const echoes = echoes_of(walk, part))
      for (std::uint64_t i = 0; i < part.count; ++i)
        add_use(part, order(static_cast<std::uint32_t>(part.offset + i)), *echoes);
  }

  void add_use(const Part& part, std::uint32_t place, const Echoes& echoes) {
    const std::uint64_t record = part.window.first + place;
    plan_.add_use({record, echoes.of(place), version_of(record)});
  }
  std::int64_t version_of(std::uint64_t record) const {
    return versions_.any() ? versions_.at(epoch_.position(record)) : 0;
  }

  /// Adds a part of a pass that leaves records out.
  template <class S>
  void add_selected(const S& walk, const Part& part) {
    const std::uint64_t window = epoch_.position(part.window.first);
    PassPart drawn{order_of(part), window,        part.offset, part.count,
                   part.draw,      epoch_.number, part.sparse, part.window.first,
                   nullptr,        part.selection};
    drawn.echoes = echoes_of(walk, part);
    plan_.add(draw_.listed(part.count), window + part.window.count);
    for (std::uint64_t i = part.offset; i < part.offset + part.count; ++i) {
      const std::uint32_t place = drawn.place(i);
      plan_.add_slot((window + place) % ring_.capacity());
      if (!options_.echoes) continue;
      const std::uint64_t record = part.window.first + place;
      plan_.add_use({record, drawn.echo(place), version_of(record)});
    }
    if (options_.ragged) length_ = draw_.length(window + drawn.place(part.offset));
  }

  bool is_whole() const {
    if (options_.ragged) return length_ == draw_.full_length();
    return plan_.rows() == options_.batch_size;
  }

  /// A wait has come in the middle of a batch. For a fixed factor nothing was used up;
  /// "auto" may need the slots of what comes before it, and so may passes of which the
  /// batch has more than there is room for.
  void cut(StreamHandle stream) {
    if (!std::holds_alternative<AutoSweep>(sweep_) && !expires()) return;
    if (plan_.rows() > partial_count_) {
      draw_.hold(plan_, partial_count_ > 0 ? 1 : 0, stream);
      partial_count_ = plan_.rows();
      held_uses_ = plan_.uses();
    }
    sweep_ = after_;
    release(oldest_record(sweep_));
  }

  /// The plan is carried out.
  void go_on() {
    sweep_ = after_;
    partial_count_ = 0;
    held_uses_.clear();
  }

  DeviceDraw draw_;
  Replay& replay_;
  const Versions& versions_;
  Plan plan_;
  std::vector<DrawnUse> held_uses_;           // of the records that are held
  Sweep after_;                               // the schedule behind it
  std::size_t length_ = 0;                    // of the batch, where records are ragged
  std::optional<std::uint64_t> catching_up_;  // with what is below this position
};

}  // namespace echobuf::cuda
